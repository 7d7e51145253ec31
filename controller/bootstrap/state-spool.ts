import { clone, create } from "@bufbuild/protobuf";
import {
  Result,
  type TaskState,
  TaskStateSchema,
  type UpdateTaskRequest,
  type UpdateTaskResponse,
  UpdateTaskResponseSchema,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import { gotThrough, withResult } from "./final-state.ts";
import { noOutputs, type Outputs, withOutputs } from "./outputs.ts";

/** An UpdateTask whose state is there and is the task's. */
export type StateReport = UpdateTaskRequest & { state: TaskState };

/** How the job ended; times in milliseconds since the epoch. */
export type Final =
  | { readonly kind: "none" }
  /** gitea-runner has said so: what it is told to be taken, whatever becomes of the facade. */
  | { readonly kind: "reported"; readonly state: TaskState; readonly at: number }
  /** The executor was told to end while the job ran: whoever knows why says how it ended. */
  | { readonly kind: "left" }
  /** gitea-runner has ended without a word; the job has so many steps. */
  | { readonly kind: "missing"; readonly steps: number; readonly at: number }
  /** The facade has taken the result. This is what counts: Gitea may have ended the job otherwise. */
  | { readonly kind: "delivered"; readonly result: Result };

/** The state lane's memory: the latest state, and what must not be lost by that. Rows are as gitea-runner counts. */
export type StateSpool = {
  /** The last full state, its result aside. */
  readonly state: TaskState;
  readonly outputs: Outputs;
  readonly final: Final;
  /** How the job ended in Gitea's eyes, by a cancel or a timeout; UNSPECIFIED while it runs there. */
  readonly ended: Result;
  /** How many reports came, and how many of them an answered call has told. */
  readonly reports: number;
  readonly told: number;
  /** When the facade last answered, in milliseconds since the epoch. */
  readonly answeredAt: number;
  /** Fields that we do not know: of gitea-runner's last report, and of the last answer. */
  readonly unknown: UpdateTaskRequest["$unknown"];
  readonly answerUnknown: UpdateTaskResponse["$unknown"];
};

export function initialState(taskId: bigint, ended: Result, claimedAt: number): StateSpool {
  return {
    state: create(TaskStateSchema, { id: taskId }),
    outputs: noOutputs,
    final: { kind: "none" },
    ended,
    reports: 0,
    told: 0,
    answeredAt: claimedAt,
    unknown: undefined,
    answerUnknown: undefined,
  };
}

/**
 * Takes in what gitea-runner reports at `now`. A report without steps, from before it counted them, does not make the
 * known ones forgotten. Its first word about the result counts: judged then, and not again when it is repeated.
 * `stopped`: the executor was told to end.
 */
export function withReport(
  spool: StateSpool,
  report: StateReport,
  stopped: boolean,
  now: number,
): StateSpool {
  if (spool.final.kind !== "none") return spool;
  const state = clone(TaskStateSchema, report.state);
  if (state.steps.length === 0) state.steps = spool.state.steps;
  const { result } = state;
  state.result = Result.UNSPECIFIED;
  const final = (): Final => {
    if (result === Result.UNSPECIFIED) return spool.final;
    const reported = withResult(state, result, now);
    return isCutShort(spool, stopped) && !gotThrough(reported)
      ? { kind: "left" }
      : { kind: "reported", state: reported, at: now };
  };
  return {
    ...spool,
    state,
    outputs: withOutputs(spool.outputs, report.outputs),
    final: final(),
    reports: spool.reports + 1,
    unknown: report.$unknown,
  };
}

/**
 * Takes in that gitea-runner has ended, whose job has so many steps: if it has reported no result there is one now,
 * unless the executor was told to end.
 */
export function withoutRunner(spool: StateSpool, steps: number, stopped: boolean, now: number): StateSpool {
  if (spool.final.kind !== "none") return spool;
  const left = isCutShort(spool, stopped);
  return { ...spool, final: left ? { kind: "left" } : { kind: "missing", steps, at: now } };
}

/** Whether the executor was told to end though Gitea wants the job to run. */
export function isCutShort({ ended }: StateSpool, stopped: boolean): boolean {
  return stopped && ended === Result.UNSPECIFIED;
}

/**
 * What gitea-runner hears at once. If the job is over elsewhere, however it ended there, it is to wind up: older
 * versions do so for a cancel only. All outputs that it has reported count as sent.
 */
export function answerTo(
  report: StateReport,
  { final, ended, answerUnknown }: StateSpool,
): UpdateTaskResponse {
  const state = { id: report.state.id, result: answerResult(final, ended) };
  const answer = create(UpdateTaskResponseSchema, { state, sentOutputs: Object.keys(report.outputs) });
  if (answerUnknown !== undefined) answer.$unknown = answerUnknown;
  return answer;
}

function answerResult(final: Final, ended: Result): Result {
  switch (final.kind) {
    case "reported":
      return final.state.result;
    case "delivered":
      return final.result;
    case "left":
      return Result.FAILURE;
    case "none":
    case "missing":
      return ended === Result.UNSPECIFIED ? Result.UNSPECIFIED : Result.CANCELLED;
    default:
      return final satisfies never;
  }
}
