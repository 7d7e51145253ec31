import type { Attempt } from "../identity/capability.ts";
import type { EventOf } from "./event.ts";
import type { Cell, Row } from "./machine.ts";
import { isLater, sameAttempt, type AssignmentRecord, type Claim, type End } from "./record.ts";

const noAttempt = { ignored: "no attempt is current" } as const;
const unclaimed = { ignored: "nobody has claimed the task" } as const;
const undecided = { ignored: "no end is decided" } as const;

/** Moves to `ending`; what is known of the attempt and its claim stays with the record. */
export function toEnding(
  record: AssignmentRecord,
  end: End,
  now: number,
  known: { readonly attempt?: Attempt; readonly claim?: Claim } = {},
): AssignmentRecord {
  const { attempt, claim } = known;
  return {
    ...record,
    phase: {
      name: "ending",
      ...(attempt === undefined ? {} : { attempt }),
      ...(claim === undefined ? {} : { claim }),
      end,
      since: now,
    },
  };
}

/** Our decision; without an executor nothing stands in the way of its rows. */
export function verdict({ failure, result }: EventOf<"failed">, executorGone: boolean): End {
  return { by: "controller", result, failure, executorGone };
}

/** There is no row to tell, so nothing is waited for: some executors take long to end, a pull that hangs for ever. */
const cancelled: End = { by: "controller", result: "cancelled", executorGone: true };

function beginRows<Name extends "queued" | "starting">(name: Name): Cell<Name, "rows_begun"> {
  return {
    to: [name],
    move: ({ record }) => (record.rowsBegun ? "they have begun already" : { ...record, rowsBegun: true }),
  };
}

function queueAgain<Name extends "queued" | "starting">(name: Name): Cell<Name, "queued_again"> {
  return {
    to: [name],
    move: ({ record, event }) =>
      record.sequence === event.sequence ? "it is known" : { ...record, sequence: event.sequence },
  };
}

/** Attempts are counted before they begin: an executor of a later one is younger than the record, which got lost. */
function adoptLater<Name extends "queued" | "starting">(known: string): Cell<Name, "executor_adopted"> {
  return {
    to: ["adopted"],
    move: ({ record, event: { attempt }, now }) =>
      isLater(record, attempt)
        ? {
            ...record,
            attempts: { ...record.attempts, begun: attempt.number },
            phase: { name: "adopted", attempt, since: now },
          }
        : known,
  };
}

/** No executor is there, or the last one is lost. */
export const queuedRow: Row<"queued"> = {
  attempt_begun: {
    to: ["starting"],
    move: ({ record, event: { nonce, deadlineAt }, now }) => {
      const number = record.attempts.begun + 1;
      return {
        ...record,
        attempts: { ...record.attempts, begun: number },
        phase: { name: "starting", attempt: { number, nonce }, since: now, deadlineAt },
      };
    },
  },
  attempt_lost: noAttempt,
  executor_adopted: adoptLater("its attempt is known to be lost"),
  claimed: noAttempt,
  steps_reported: noAttempt,
  rows_begun: beginRows("queued"),
  cancel_told: { to: ["ending"], move: ({ record, now }) => toEnding(record, cancelled, now) },
  result_reported: noAttempt,
  report_lost: undecided,
  failed: { to: ["ending"], move: ({ record, event, now }) => toEnding(record, verdict(event, true), now) },
  executor_gone: undecided,
  accepted: undecided,
  report_given_up: undecided,
  ended_by_gitea: {
    to: ["finished"],
    move: ({ record, event: { result }, now }) => ({
      ...record,
      phase: { name: "finished", result, by: "gitea", at: now },
    }),
  },
  queued_again: queueAgain("queued"),
};

/** An executor is being made, or is there and has not claimed. */
export const startingRow: Row<"starting"> = {
  attempt_begun: {
    to: [],
    move: ({ phase, event }) =>
      phase.attempt.nonce === event.nonce ? "it has begun already" : "another attempt is current",
  },
  attempt_lost: {
    to: ["queued"],
    move: ({ record, phase, event: { attempt, failure, burnt, retryAt } }) =>
      sameAttempt(phase.attempt, attempt)
        ? {
            ...record,
            attempts: {
              ...record.attempts,
              burnt: record.attempts.burnt + (burnt ? 1 : 0),
              lost: failure,
            },
            phase: { name: "queued", notBefore: retryAt },
          }
        : "another attempt is current",
  },
  executor_adopted: adoptLater("the record knows its attempt"),
  claimed: {
    to: ["claimed"],
    move: ({ record, phase, event: { attempt, instance, logRows }, now }) =>
      sameAttempt(phase.attempt, attempt)
        ? {
            ...record,
            phase: {
              name: "claimed",
              attempt: phase.attempt,
              claim: { instance, logRows, at: now },
              deadlineAt: phase.deadlineAt,
            },
          }
        : "another attempt is current",
  },
  steps_reported: unclaimed,
  rows_begun: beginRows("starting"),
  cancel_told: {
    to: ["ending"],
    move: ({ record, phase: { attempt }, now }) => toEnding(record, cancelled, now, { attempt }),
  },
  result_reported: unclaimed,
  report_lost: undecided,
  failed: {
    to: ["ending"],
    move: ({ record, phase: { attempt }, event, now }) =>
      toEnding(record, verdict(event, false), now, { attempt }),
  },
  executor_gone: undecided,
  accepted: undecided,
  report_given_up: undecided,
  ended_by_gitea: {
    to: ["finished"],
    move: ({ record, phase: { attempt }, event: { result }, now }) => ({
      ...record,
      phase: { name: "finished", attempt, result, by: "gitea", at: now },
    }),
  },
  queued_again: queueAgain("starting"),
};
