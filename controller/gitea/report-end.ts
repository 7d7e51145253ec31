import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  LogRowSchema,
  type UpdateTaskResponse,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import type { StepRecord, TaskResult } from "../assignment/record.ts";
import { GiteaError } from "../protocol/errors.ts";
import type { RunnerClient } from "./runner-client.ts";
import { wireSteps } from "../protocol/steps.ts";
import { taskResultOf, wireResult } from "../protocol/task-result.ts";

export type End = {
  readonly taskId: bigint;
  readonly result: TaskResult;
  /** For the person who pushed; become the last rows of the job's log. */
  readonly reason: readonly string[];
  /** The last known state of all steps. */
  readonly steps: readonly StepRecord[];
};

type Reporter = Pick<RunnerClient, "updateTask" | "updateLog">;

/** Further than any log goes: asks for the number of stored rows without storing one. */
const beyondAnyLog = 1_000_000_000n;

/**
 * Ends a task in Gitea on behalf of an executor that cannot: the reason as log rows after the last stored one,
 * then the result. Steps that were not over are closed, because a result without them would leave them running
 * for ever in Gitea's pages. A log that takes no more rows does not hold the result up. Repeating it is safe.
 * Resolves to the result that Gitea shows, or "gone" if Gitea knows no such task of ours; rejects with a
 * transient GiteaError, and the caller tries again.
 */
export async function reportEnd(
  gitea: Reporter,
  end: End,
  now: number,
  signal: AbortSignal,
): Promise<TaskResult | "gone"> {
  try {
    const count = await appendReason(gitea, end, now, signal);
    const steps = closeSteps(end.steps, end.result, count, now);
    const answer: UpdateTaskResponse = await gitea.updateTask(
      {
        state: {
          id: end.taskId,
          result: wireResult(end.result),
          stoppedAt: timestampFromMs(now),
          steps: wireSteps(steps),
        },
      },
      signal,
    );
    return taskResultOf(answer.state?.result) ?? end.result;
  } catch (error) {
    if (error instanceof GiteaError && error.fault === "gone") return "gone";
    throw error;
  }
}

/** How many rows a task's log has in Gitea. */
export async function storedRows(
  gitea: Pick<RunnerClient, "updateLog">,
  taskId: bigint,
  signal: AbortSignal,
): Promise<bigint> {
  return (await gitea.updateLog({ taskId, index: beyondAnyLog }, signal)).ackIndex;
}

/** Resolves to the number of rows that the log had before, or undefined if it is closed. */
async function appendReason(
  gitea: Reporter,
  { taskId, reason }: End,
  now: number,
  signal: AbortSignal,
): Promise<bigint | undefined> {
  try {
    const stored = await storedRows(gitea, taskId, signal);
    const rows = reason.map((content) => create(LogRowSchema, { time: timestampFromMs(now), content }));
    // Some servers close a log only on a request that carries a row.
    const closing = rows.length > 0 ? rows : [create(LogRowSchema, { time: timestampFromMs(now) })];
    await gitea.updateLog({ taskId, index: stored, rows: closing, noMore: true }, signal);
    return stored;
  } catch (error) {
    if (error instanceof GiteaError && error.fault === "log-archived") return undefined;
    throw error;
  }
}

/** All steps with an end: what was over stays, what had begun gets the task's result, the rest is skipped. */
export function closeSteps(
  steps: readonly StepRecord[],
  result: TaskResult,
  logRows: bigint | undefined,
  now: number,
): readonly StepRecord[] {
  const stoppedAt = new Date(now).toISOString();
  return steps.map((step) => {
    if (step.result !== undefined) return step;
    if (step.startedAt === undefined) return { ...step, result: "skipped" };
    // A step that was running owns all rows since it began.
    const logLength = logRows === undefined ? step.logLength : Math.max(0, Number(logRows) - step.logIndex);
    return { ...step, result, stoppedAt, logLength: Math.max(step.logLength, logLength) };
  });
}
