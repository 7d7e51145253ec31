import { clone, create } from "@bufbuild/protobuf";
import {
  Result,
  type TaskState,
  TaskStateSchema,
  type UpdateTaskRequest,
  type UpdateTaskResponse,
} from "../../proto/gen/runner/v1/runner_pb.ts";

/** An UpdateTask whose state is there and is the task's. */
export type StateReport = UpdateTaskRequest & { state: TaskState };

/** The runner's word about how the job ended, and whether the facade has it. */
export type Final =
  | { readonly kind: "none" }
  | { readonly kind: "seen"; readonly report: StateReport }
  | {
      readonly kind: "delivered";
      readonly answer: UpdateTaskResponse;
      /** What counts: Gitea may have ended the job otherwise. */
      readonly result: Result;
    };

/** How far the job is, as reported and answered so far. Rows and steps are counted as gitea-runner counts them. */
export type Progress = {
  /** The last full state, its result aside: this is what is said again while the runner is silent. */
  readonly state: TaskState;
  /** Rows that are known to be stored; the next one has this index. */
  readonly rows: bigint;
  readonly final: Final;
  /** How the job ended in Gitea's eyes, by a cancel or a timeout; UNSPECIFIED while it runs there. */
  readonly ended: Result;
  /** When the facade last answered an UpdateTask, in milliseconds since the epoch. */
  readonly answeredAt: number;
};

export function initialProgress(taskId: bigint, ended: Result, claimedAt: number): Progress {
  const state = create(TaskStateSchema, { id: taskId });
  return { state, rows: 0n, final: { kind: "none" }, ended, answeredAt: claimedAt };
}

/**
 * Takes in what the runner reports. A report without steps, from before it counted them, does not make the
 * known ones forgotten.
 */
export function withReport(progress: Progress, report: StateReport): Progress {
  const state = clone(TaskStateSchema, report.state);
  if (state.steps.length === 0) state.steps = progress.state.steps;
  const final: Final = state.result === Result.UNSPECIFIED ? progress.final : { kind: "seen", report };
  state.result = Result.UNSPECIFIED;
  return { ...progress, state, final };
}

/** Takes in the facade's answer to an UpdateTask. */
export function withAnswer(
  progress: Progress,
  sent: TaskState,
  answer: UpdateTaskResponse,
  now: number,
): Progress {
  const said = answer.state?.result ?? Result.UNSPECIFIED;
  const ended = said === Result.UNSPECIFIED ? progress.ended : said;
  if (sent.result === Result.UNSPECIFIED) return { ...progress, answeredAt: now, ended };
  const result = said === Result.UNSPECIFIED ? sent.result : said;
  return { ...progress, answeredAt: now, ended, final: { kind: "delivered", answer, result } };
}
