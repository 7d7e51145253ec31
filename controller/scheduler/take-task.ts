import type { Task } from "../../proto/gen/runner/v1/runner_pb.ts";
import type { Assignment } from "../assignment/assignment.ts";
import { backoffMs, type Random } from "../platform/backoff.ts";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import type { Logger } from "../platform/logger.ts";

export type TaskReading =
  { readonly ok: true; readonly assignment: Assignment } | { readonly ok: false; readonly reason: string };

export type QueuedTask = {
  readonly assignment: Assignment;
  readonly fetchedAt: number;
  readonly compressedTask: Uint8Array;
};

export type TakeTaskOptions = {
  readonly read: (task: Task) => TaskReading;
  /** What may be written in `runs-on`, for the message to one who wrote something else. */
  readonly offered: string;
  readonly compress: (task: Task) => Promise<Uint8Array>;
  /** One attempt. An error with `limit` says that the task can never be stored; any other is tried again. */
  readonly publish: (task: QueuedTask, signal: AbortSignal) => Promise<{ readonly sequence: number }>;
  readonly offer: (task: QueuedTask & { readonly sequence: number }, signal: AbortSignal) => Promise<unknown>;
  /** Ends the task in Gitea as failed, with rows for the person who pushed; rejects while Gitea cannot be reached. */
  readonly fail: (taskId: bigint, rows: readonly string[], signal: AbortSignal) => Promise<unknown>;
  /** Tells Gitea that the task is still held. */
  readonly beat: (taskId: bigint, signal: AbortSignal) => Promise<unknown>;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
};

const retryBackoff = { firstMs: 500, maxMs: 5_000 };
const beatMs = 12_000;
const attemptMs = 10_000;

/**
 * Takes in a task that was just fetched. There is no giving back: it becomes durable, however long that takes,
 * or it is ended in Gitea with the reason. Resolves when one of both is done, or at shutdown after the attempt
 * to end it as "could not be stored".
 */
export function createTakeTask(options: TakeTaskOptions) {
  const { read, offered, compress, publish, offer, fail, beat, clock, random, log } = options;

  /** Tries at least once, also when a stop was asked for meanwhile: the task in hand is still to be saved. */
  const persist = async (
    what: string,
    work: (deadline: AbortSignal) => Promise<unknown>,
    taskId: bigint,
    signal: AbortSignal,
  ) => {
    let beatAt = clock.now();
    for (let failures = 1; ; failures++) {
      try {
        await work(AbortSignal.timeout(attemptMs));
        return;
      } catch (error) {
        log.error({ task: String(taskId), error: describeError(error), failures }, `${what} failed`);
        if (neverStorable(error) || signal.aborted) throw error;
      }
      if (clock.now() - beatAt >= beatMs) {
        beatAt = clock.now();
        await beat(taskId, signal).catch(() => undefined);
      }
      await clock.sleep(backoffMs(failures, retryBackoff, random), signal).catch(() => undefined);
    }
  };

  const end = async (taskId: bigint, rows: readonly string[], signal: AbortSignal) => {
    log.warn({ task: String(taskId), reason: rows.join(" ") }, "task refused");
    await persist("ending a task in gitea", (deadline) => fail(taskId, rows, deadline), taskId, signal);
  };

  /** Resolves to where the task is in the stream, or undefined if it has been ended in Gitea instead. */
  const store = async (queued: QueuedTask, signal: AbortSignal): Promise<number | undefined> => {
    const { taskId } = queued.assignment;
    let sequence: number | undefined;
    const publishOnce = async (deadline: AbortSignal) => {
      ({ sequence } = await publish(queued, deadline));
    };
    try {
      await persist("publishing a task", publishOnce, taskId, signal);
    } catch (error) {
      const rows = neverStorable(error) ? [`${describeError(error)}.`] : [couldNotBeStored];
      await end(taskId, rows, signal);
    }
    return sequence;
  };

  return async (task: Task, fetchedAt: number, signal: AbortSignal): Promise<void> => {
    const reading = read(task);
    if (!reading.ok) {
      const rows = [`This job cannot be run here: ${reading.reason}.`, `Offered: runs-on: ${offered}.`];
      await end(task.id, rows, signal);
      return;
    }
    const queued = { assignment: reading.assignment, fetchedAt, compressedTask: await compress(task) };
    const sequence = await store(queued, signal);
    if (sequence === undefined) return;
    const { id, backend, repository, jobKey } = queued.assignment;
    log.info({ assignment: id, backend, repository, job: jobKey }, "task stored");
    try {
      const record = (deadline: AbortSignal) => offer({ ...queued, sequence }, deadline);
      await persist("recording a task", record, task.id, signal);
    } catch (error) {
      // The task is durable already, and its delivery makes the record that this could not.
      if (!signal.aborted) throw error;
    }
  };
}

const couldNotBeStored = "This job could not be stored before the runner's controller stopped. Run it again.";

/** The queue says so by an error with the size limit that the task exceeds. */
function neverStorable(error: unknown): boolean {
  return error instanceof Error && "limit" in error;
}
