import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { StepRecord, TaskResult } from "../assignment/record.ts";
import type { Clock } from "../platform/clock.ts";
import { withDeadline } from "../platform/signal.ts";
import { LogRowSchema } from "../../proto/gen/runner/v1/runner_pb.ts";
import { GiteaError } from "../protocol/errors.ts";
import { wireSteps } from "../protocol/steps.ts";
import { taskResultOf, wireResult } from "../protocol/task-result.ts";
import { closeSteps } from "./close-steps.ts";
import type { RunnerClient } from "./runner-client.ts";
import { shownResult } from "./shown-result.ts";

export type End = {
  readonly taskId: bigint;
  readonly result: TaskResult;
  /** For the person who pushed; become the last rows of the job's log. */
  readonly reason: readonly string[];
  /** The last known state of all steps. */
  readonly steps: readonly StepRecord[];
};

export type ReportEndOptions = {
  readonly gitea: Pick<RunnerClient, "updateTask" | "updateLog">;
  readonly clock: Clock;
};

/** Further than any log goes: asks for the number of stored rows without storing one. */
const beyondAnyLog = 1_000_000_000n;

/** One try to write the rows: what is left of the caller's time is the result's. */
const rowsMs = 10_000;
/** From the first try on; then a result goes without its rows, if they still cannot be written. */
const rowsGiveUpMs = 120_000;

/** What a repetition knows of the tries before it. */
type Tries = {
  since: number;
  /** Where the rows begin: written there once more they are not stored twice. */
  rowsAt?: bigint;
};

/**
 * Ends a task in Gitea on behalf of an executor that cannot: the reason as log rows after the last stored one, then
 * the result, with all steps closed. A task that Gitea shows as over is left as it is: another controller may have told
 * its end. Nobody else may write into the task's log meanwhile. Resolves to the result that Gitea shows, or "gone" if
 * Gitea knows no such task of ours. Rejects while it cannot be told, and the caller tries again: that changes nothing
 * that is there already. A log that takes no rows holds the result up for two minutes at most, not counting the time in
 * which Gitea does not take the result either.
 */
export function createReportEnd({ gitea, clock }: ReportEndOptions) {
  const all = new Map<bigint, Tries>();

  const put = async ({ taskId, reason }: End, tries: Tries, noMore: boolean, signal: AbortSignal) => {
    const index = (tries.rowsAt ??= await storedRows(gitea, taskId, signal));
    const time = timestampFromMs(clock.now());
    // Some servers close a log only on a request that carries a row.
    const contents = reason.length > 0 ? reason : [""];
    const rows = contents.map((content) => create(LogRowSchema, { time, content }));
    const { ackIndex } = await gitea.updateLog({ taskId, index, rows, noMore }, signal);
    if (ackIndex === index + BigInt(rows.length)) return;
    // Somebody else has written: ours belong behind that.
    delete tries.rowsAt;
    throw new GiteaError("transient", `the log of task ${taskId} has moved on`);
  };

  const append = async (end: End, tries: Tries, signal: AbortSignal): Promise<void> => {
    try {
      await put(end, tries, true, signal);
    } catch (error) {
      if (isFault(error, "log-archived")) return;
      if (!isFault(error, "log-trouble")) throw error;
      // A log that cannot be moved to Gitea's store of closed ones may still take rows.
      await put(end, tries, false, signal);
    }
  };

  /** Resolves when the result need not wait for the rows any more. */
  const rowsFirst = async (end: End, tries: Tries, signal: AbortSignal): Promise<void> => {
    try {
      await withDeadline(clock, rowsMs, (deadline) => append(end, tries, deadline), signal);
    } catch (error) {
      signal.throwIfAborted();
      // A clock that was set back must not make it long.
      tries.since = Math.min(tries.since, clock.now());
      if (isFault(error, "gone") || clock.now() - tries.since < rowsGiveUpMs) throw error;
    }
  };

  /**
   * The result that Gitea shows already. A cancel may only be wanted there, and then it waits for our word. The steps
   * go along, or Gitea would set those that are over back to running.
   */
  const shownBefore = async (
    { taskId, steps }: End,
    signal: AbortSignal,
  ): Promise<TaskResult | undefined> => {
    const { state } = await gitea.updateTask({ state: { id: taskId, steps: wireSteps(steps) } }, signal);
    const shown = taskResultOf(state?.result);
    return shown === "cancelled" ? undefined : shown;
  };

  return async (end: End, signal: AbortSignal): Promise<TaskResult | "gone"> => {
    const { taskId, result } = end;
    try {
      const before = await shownBefore(end, signal);
      if (before !== undefined) {
        all.delete(taskId);
        return before;
      }
      const tries: Tries = all.get(taskId) ?? { since: clock.now() };
      all.set(taskId, tries);
      await rowsFirst(end, tries, signal);
      const now = clock.now();
      const steps = wireSteps(closeSteps(end.steps, result, tries.rowsAt, now));
      const state = { id: taskId, result: wireResult(result), stoppedAt: timestampFromMs(now), steps };
      const shown = shownResult(taskId, await gitea.updateTask({ state }, signal));
      all.delete(taskId);
      return shown;
    } catch (error) {
      if (!isFault(error, "gone")) throw error;
      all.delete(taskId);
      return "gone";
    }
  };
}

/** How many rows a task's log has in Gitea. */
export async function storedRows(
  gitea: Pick<RunnerClient, "updateLog">,
  taskId: bigint,
  signal: AbortSignal,
): Promise<bigint> {
  return (await gitea.updateLog({ taskId, index: beyondAnyLog }, signal)).ackIndex;
}

function isFault(error: unknown, fault: GiteaError["fault"]): boolean {
  return error instanceof GiteaError && error.fault === fault;
}
