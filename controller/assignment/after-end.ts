import type { Row } from "./machine.ts";
import { resultOf, type AssignmentRecord, type PhaseOf, type TaskResult } from "./record.ts";

const decided = { ignored: "the end is decided" } as const;
const over = { ignored: "the task is over" } as const;

function finished(
  record: AssignmentRecord,
  { attempt, claim }: PhaseOf<"ending">,
  end: { readonly result: TaskResult; readonly by: PhaseOf<"finished">["by"] },
  now: number,
): AssignmentRecord {
  return {
    ...record,
    phase: {
      name: "finished",
      ...(attempt === undefined ? {} : { attempt }),
      ...(claim === undefined ? {} : { claim }),
      ...end,
      at: now,
    },
  };
}

/** The first decision stands, whoever made it; only Gitea's own may overtake it. */
export const endingRow: Row<"ending"> = {
  attempt_begun: decided,
  attempt_lost: decided,
  executor_adopted: decided,
  claimed: decided,
  steps_reported: decided,
  rows_begun: decided,
  cancel_told: { ignored: "Gitea makes a cancel of whatever it is told" },
  result_reported: decided,
  report_lost: {
    to: ["ending"],
    move: ({ record, phase, event: { failure } }) =>
      phase.end.by === "executor"
        ? {
            ...record,
            phase: {
              ...phase,
              end: { by: "controller", result: "failure", failure, executorGone: false },
            },
          }
        : "no report is stored",
  },
  failed: decided,
  executor_gone: {
    to: ["ending"],
    move: ({ record, phase }) =>
      phase.end.by === "controller" && !phase.end.executorGone
        ? { ...record, phase: { ...phase, end: { ...phase.end, executorGone: true } } }
        : "nothing waits for it",
  },
  accepted: {
    to: ["finished"],
    move: ({ record, phase, event: { result }, now }) =>
      finished(record, phase, { result, by: phase.end.by }, now),
  },
  report_given_up: {
    to: ["finished"],
    move: ({ record, phase, now }) =>
      finished(record, phase, { result: resultOf(record) ?? "failure", by: phase.end.by }, now),
  },
  ended_by_gitea: {
    to: ["finished"],
    move: ({ record, phase, event: { result }, now }) =>
      finished(record, phase, { result, by: "gitea" }, now),
  },
  queued_again: decided,
};

/** What is left is to end the executor and to forget. */
export const finishedRow: Row<"finished"> = {
  attempt_begun: over,
  attempt_lost: over,
  executor_adopted: over,
  claimed: over,
  steps_reported: over,
  rows_begun: over,
  cancel_told: over,
  result_reported: over,
  report_lost: over,
  failed: over,
  executor_gone: over,
  accepted: over,
  report_given_up: over,
  ended_by_gitea: over,
  queued_again: over,
};
