import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { LogRowSchema, type UpdateTaskResponse } from "../../proto/gen/runner/v1/runner_pb.ts";
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
 * Gitea takes steps by their number and ignores those that a job does not have, but leaves a step that a result
 * does not name open for ever. Where none was ever reported, nobody knows how many there are.
 */
const stepsOfAnyJob: readonly StepRecord[] = Array.from({ length: 256 }, (_, id) => ({
  id,
  logIndex: 0,
  logLength: 0,
}));

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
    const known = end.steps.length === 0 ? stepsOfAnyJob : end.steps;
    const steps = closeSteps(known, end.result, count, now);
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

/** Resolves to the number of rows that the log had before, or undefined if it takes no more. */
async function appendReason(
  gitea: Reporter,
  end: End,
  now: number,
  signal: AbortSignal,
): Promise<bigint | undefined> {
  // A log that cannot be moved to Gitea's store of closed ones may still take rows.
  for (const noMore of [true, false]) {
    try {
      return await appendRows(gitea, end, noMore, now, signal);
    } catch (error) {
      if (!(error instanceof GiteaError)) throw error;
      if (error.fault === "log-archived") return undefined;
      if (error.fault !== "log-trouble") throw error;
    }
  }
  return undefined;
}

async function appendRows(
  gitea: Reporter,
  { taskId, reason }: End,
  noMore: boolean,
  now: number,
  signal: AbortSignal,
): Promise<bigint> {
  const stored = await storedRows(gitea, taskId, signal);
  const rows = reason.map((content) => create(LogRowSchema, { time: timestampFromMs(now), content }));
  // Some servers close a log only on a request that carries a row.
  const closing = rows.length > 0 ? rows : [create(LogRowSchema, { time: timestampFromMs(now) })];
  await gitea.updateLog({ taskId, index: stored, rows: closing, noMore }, signal);
  return stored;
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
