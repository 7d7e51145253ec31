import type { Attempt } from "../identity/capability.ts";
import type { Failure } from "./failure.ts";
import type { StepRecord, StoredReport, TaskResult } from "./record.ts";

/** Everything that can happen to an assignment once it is ours. */
export type AssignmentEvent =
  /** An executor is about to be made. A nonce begins one attempt only. */
  | { readonly type: "attempt_begun"; readonly nonce: string; readonly deadlineAt: number }
  /** Its executor will never claim. `burnt`: it counts against the limit. */
  | {
      readonly type: "attempt_lost";
      readonly attempt: Attempt;
      readonly failure: Failure;
      readonly burnt: boolean;
      /** When the next one may begin. */
      readonly retryAt: number;
    }
  /** There is an executor, but its record was lost. */
  | { readonly type: "executor_adopted"; readonly attempt: Attempt }
  | {
      readonly type: "claimed";
      readonly attempt: Attempt;
      readonly instance: string;
      readonly logRows: number;
    }
  | { readonly type: "steps_reported"; readonly attempt: Attempt; readonly steps: readonly StepRecord[] }
  /** The controller is about to write its first row into the task's log. */
  | { readonly type: "rows_begun" }
  /** Gitea wants the task to end, and waits for our word that it has. */
  | { readonly type: "cancel_told" }
  /** The executor's result, stored before this. */
  | { readonly type: "result_reported"; readonly attempt: Attempt; readonly report: StoredReport }
  /** What was stored cannot be read again. */
  | { readonly type: "report_lost"; readonly failure: Failure }
  /** We decide that the task is over. */
  | {
      readonly type: "failed";
      readonly failure: Failure;
      readonly result: "failure" | "cancelled";
      /** Decided because nobody had claimed it: a claim that was stored meanwhile makes that void. */
      readonly unclaimed?: boolean;
    }
  /** Nothing runs any more that could write rows. */
  | { readonly type: "executor_gone" }
  /** Gitea has taken our word; this is what it shows. */
  | { readonly type: "accepted"; readonly result: TaskResult }
  /** Gitea was away for longer than it keeps a task that nobody speaks for. */
  | { readonly type: "report_given_up" }
  /** Gitea has ended the task by itself, or does not know it any more. */
  | { readonly type: "ended_by_gitea"; readonly result: TaskResult }
  /** Its message got lost and was stored anew. */
  | { readonly type: "queued_again"; readonly sequence: number };

export type EventType = AssignmentEvent["type"];
export type EventOf<Type extends EventType> = Extract<AssignmentEvent, { readonly type: Type }>;

export const eventTypes = [
  "attempt_begun",
  "attempt_lost",
  "executor_adopted",
  "claimed",
  "steps_reported",
  "rows_begun",
  "cancel_told",
  "result_reported",
  "report_lost",
  "failed",
  "executor_gone",
  "accepted",
  "report_given_up",
  "ended_by_gitea",
  "queued_again",
] as const satisfies readonly EventType[];
