import type { AssignmentEvent, EventOf, EventType } from "../../controller/assignment/event.ts";
import { failureFor } from "../../controller/assignment/failure.ts";
import type {
  AssignmentRecord,
  Claim,
  Phase,
  PhaseName,
  PhaseOf,
} from "../../controller/assignment/record.ts";
import { anAttempt, aRecord, testStart } from "./builders.ts";

export const aClaim: Claim = { instance: "instance-of-the-first", logRows: 0, at: testStart };

export const aReport = { result: "success", key: "0".repeat(16), parts: 1, bytes: 3 } as const;

/** When the builders' first attempt has to be over. */
export const testDeadline = testStart + 60 * 60_000;

/** A verdict of ours whose executor may still live. */
const end = {
  by: "controller",
  result: "failure",
  failure: failureFor("silent", "nothing heard"),
  executorGone: false,
} as const;

/** One phase of each name, of the first attempt, begun at `testStart`. */
const phases: { readonly [Name in PhaseName]: PhaseOf<Name> } = {
  queued: { name: "queued", notBefore: 0 },
  starting: { name: "starting", attempt: anAttempt(), since: testStart, deadlineAt: testDeadline },
  adopted: { name: "adopted", attempt: anAttempt(), since: testStart },
  claimed: { name: "claimed", attempt: anAttempt(), claim: aClaim, deadlineAt: testDeadline },
  ending: { name: "ending", attempt: anAttempt(), claim: aClaim, end, since: testStart },
  finished: {
    name: "finished",
    attempt: anAttempt(),
    claim: aClaim,
    result: "success",
    by: "executor",
    at: testStart,
  },
};

export function aPhase<Name extends PhaseName>(name: Name, overrides: Partial<PhaseOf<Name>> = {}): Phase {
  return { ...phases[name], ...overrides };
}

/** The builders' record in a phase, its attempts counted accordingly. */
export function inPhase<Name extends PhaseName>(
  name: Name,
  overrides: Partial<PhaseOf<Name>> = {},
): AssignmentRecord {
  const phase = aPhase(name, overrides);
  const begun = "attempt" in phase ? (phase.attempt?.number ?? 0) : 0;
  return aRecord({ attempts: { begun, burnt: 0 }, phase });
}

const failure = failureFor("start_failed", "exited with code 1");

/** One event of each type, about the first attempt where it is about one. */
export const anEvent: { readonly [Type in EventType]: EventOf<Type> } = {
  attempt_begun: { type: "attempt_begun", nonce: "a".repeat(32), deadlineAt: testDeadline },
  attempt_lost: { type: "attempt_lost", attempt: anAttempt(), failure, burnt: true, retryAt: testStart + 7 },
  executor_adopted: { type: "executor_adopted", attempt: anAttempt() },
  claimed: { type: "claimed", attempt: anAttempt(), instance: "instance-of-the-second", logRows: 3 },
  steps_reported: {
    type: "steps_reported",
    attempt: anAttempt(),
    steps: [{ id: 0, logIndex: 0, logLength: 2 }],
  },
  rows_begun: { type: "rows_begun" },
  cancel_told: { type: "cancel_told" },
  result_reported: { type: "result_reported", attempt: anAttempt(), report: aReport },
  report_lost: { type: "report_lost", failure: failureFor("record_lost", "a part is gone") },
  failed: { type: "failed", failure, result: "failure" },
  executor_gone: { type: "executor_gone" },
  accepted: { type: "accepted", result: "cancelled" },
  report_given_up: { type: "report_given_up" },
  ended_by_gitea: { type: "ended_by_gitea", result: "cancelled" },
  queued_again: { type: "queued_again", sequence: 9 },
};

/** The event about another attempt, if it is about one. */
export function ofAnotherAttempt(event: AssignmentEvent): AssignmentEvent {
  return "attempt" in event ? { ...event, attempt: anAttempt({ number: 7 }) } : event;
}
