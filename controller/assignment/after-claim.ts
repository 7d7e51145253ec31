import { toEnding, verdict } from "./before-claim.ts";
import type { Row } from "./machine.ts";
import { sameAttempt } from "./record.ts";

const noMoreAttempts = { ignored: "a claim, or what may be one, ends all attempts" } as const;
const noMoreRows = { ignored: "after the claim only the executor writes rows" } as const;
const noMoreMessage = { ignored: "after the claim it needs no message" } as const;
const undecided = { ignored: "no end is decided" } as const;
const mayHaveClaimed = "it was decided for a task that nobody had claimed";
const otherAttempt = "another attempt is current";

/** Its record was lost: nobody knows whether it has claimed, so it counts as claimed, by whoever asks first. */
export const adoptedRow: Row<"adopted"> = {
  attempt_begun: noMoreAttempts,
  attempt_lost: noMoreAttempts,
  executor_adopted: { ignored: "it is adopted" },
  claimed: {
    to: ["claimed"],
    move: ({ record, phase, event: { attempt, instance, logRows }, now }) =>
      sameAttempt(phase.attempt, attempt)
        ? {
            ...record,
            phase: { name: "claimed", attempt: phase.attempt, claim: { instance, logRows, at: now } },
          }
        : otherAttempt,
  },
  steps_reported: { ignored: "a report claims the task first" },
  rows_begun: noMoreRows,
  cancel_told: { ignored: "Gitea tells it again when the executor reports" },
  result_reported: { ignored: "a report claims the task first" },
  report_lost: undecided,
  failed: {
    to: ["ending"],
    move: ({ record, phase: { attempt }, event, now }) =>
      event.unclaimed === true ? mayHaveClaimed : toEnding(record, verdict(event, false), now, { attempt }),
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
  queued_again: noMoreMessage,
};

/** The bootstrap has the task, and nobody else ever will. */
export const claimedRow: Row<"claimed"> = {
  attempt_begun: noMoreAttempts,
  attempt_lost: noMoreAttempts,
  executor_adopted: noMoreAttempts,
  claimed: { ignored: "the first instance to claim wins for ever" },
  steps_reported: {
    to: ["claimed"],
    move: ({ record, phase, event: { attempt, steps } }) =>
      sameAttempt(phase.attempt, attempt) ? { ...record, steps } : otherAttempt,
  },
  rows_begun: noMoreRows,
  cancel_told: {
    to: ["claimed"],
    move: ({ record, phase, now }) =>
      phase.cancelledAt === undefined
        ? { ...record, phase: { ...phase, cancelledAt: now } }
        : "the first word counts: its grace runs from there",
  },
  result_reported: {
    to: ["ending"],
    move: ({ record, phase: { attempt, claim }, event, now }) =>
      sameAttempt(attempt, event.attempt)
        ? toEnding(record, { by: "executor", report: event.report }, now, { attempt, claim })
        : otherAttempt,
  },
  report_lost: undecided,
  failed: {
    to: ["ending"],
    move: ({ record, phase: { attempt, claim }, event, now }) =>
      event.unclaimed === true
        ? mayHaveClaimed
        : toEnding(record, verdict(event, false), now, { attempt, claim }),
  },
  executor_gone: undecided,
  accepted: undecided,
  report_given_up: undecided,
  ended_by_gitea: {
    to: ["finished"],
    move: ({ record, phase: { attempt, claim }, event: { result }, now }) => ({
      ...record,
      phase: { name: "finished", attempt, claim, result, by: "gitea", at: now },
    }),
  },
  queued_again: noMoreMessage,
};
