import type { Task } from "../../proto/gen/runner/v1/runner_pb.ts";
import type { Assignment } from "../assignment/assignment.ts";
import { describeFailure, type Failure, failureFor } from "../assignment/failure.ts";
import { backoffMs, type Random } from "../platform/backoff.ts";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import { withDeadline } from "../platform/signal.ts";
import { createKeyedQueue } from "../platform/keyed-queue.ts";
import type { Logger } from "../platform/logger.ts";

export type TaskReading =
  { readonly ok: true; readonly assignment: Assignment } | { readonly ok: false; readonly failure: Failure };

export type QueuedTask = {
  readonly assignment: Assignment;
  readonly fetchedAt: number;
  readonly compressedTask: Uint8Array;
};

export type TakeTaskOptions = {
  readonly read: (task: Task) => TaskReading;
  readonly compress: (task: Task) => Promise<Uint8Array>;
  /** One attempt. An error with `limit` says that the task can never be stored; any other is tried again. */
  readonly publish: (task: QueuedTask, signal: AbortSignal) => Promise<{ readonly sequence: number }>;
  /**
   * Whether the assignment's message has been delivered: then it is stored, whatever has become of our answers, and
   * its worker and its executor speak for it.
   */
  readonly isKnown: (assignmentId: string) => boolean;
  readonly offer: (task: QueuedTask & { readonly sequence: number }, signal: AbortSignal) => Promise<unknown>;
  /**
   * Ends the task in Gitea, with rows for the person who pushed; rejects while Gitea cannot be reached. Without a
   * failure it was cancelled, and there is nothing to explain.
   */
  readonly fail: (taskId: bigint, failure: Failure | undefined, signal: AbortSignal) => Promise<unknown>;
  /** Tells Gitea that the task is still held; resolves to `running` or to what else Gitea says of it. */
  readonly beat: (taskId: bigint, signal: AbortSignal) => Promise<string>;
  /** Told of a task that cannot be stored at the first try. */
  readonly heldUp: { begin(): Disposable };
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
};

const retryBackoff = { firstMs: 500, maxMs: 5_000 };
const beatMs = 12_000;
/** Ending a task takes several calls to Gitea. */
const attemptMs = 30_000;
/**
 * After a stop a task in hand is tried to be stored for so long: NATS may be upgraded together with the controller.
 * What ends the controller waits longer than for this, a fetch that is held and the end in Gitea.
 */
const saveMs = 20_000;
const never = new AbortController().signal;

/**
 * Takes in a task that was just fetched. There is no giving back: it becomes durable, however long that takes,
 * or it is ended in Gitea with the reason. Resolves when one of both is done, or at shutdown after the attempt
 * to end it as not stored.
 */
export function createTakeTask(options: TakeTaskOptions) {
  const { read, compress, publish, isKnown, offer, fail, beat, heldUp, clock, random, log } = options;
  /** Tasks get into the queue in the order in which they came: the oldest is to run first. */
  const order = createKeyedQueue();

  /**
   * Tries at least once, also when a stop was asked for meanwhile, and for `afterStopMs` more: the task in hand is
   * still to be saved. Rejects with the last failure once that is so, or if trying again is of no use.
   */
  const persist = async (
    what: string,
    work: (deadline: AbortSignal) => Promise<unknown>,
    taskId: bigint,
    between: () => Promise<void>,
    afterStopMs: number,
    signal: AbortSignal,
  ) => {
    let stoppedAt: number | undefined;
    for (let failures = 1; ; failures++) {
      if (signal.aborted) stoppedAt ??= clock.now();
      try {
        // Also after a stop: no try is cut short but by its own deadline.
        await withDeadline(clock, attemptMs, work, never);
        return;
      } catch (error) {
        log.error({ task: String(taskId), error: describeError(error), failures }, `${what} failed`);
        if (neverStorable(error)) throw error;
        if (signal.aborted && clock.now() - (stoppedAt ??= clock.now()) >= afterStopMs) throw error;
      }
      await between();
      const pause = signal.aborted ? never : signal;
      await clock.sleep(backoffMs(failures, retryBackoff, random), pause).catch(() => undefined);
    }
  };

  /** Beats now and then; throws TaskOverError when Gitea does not want the task to run any more. */
  const keepAlive = (taskId: bigint, signal: AbortSignal) => {
    let beatAt = clock.now();
    return async () => {
      if (clock.now() - beatAt < beatMs) return;
      beatAt = clock.now();
      const said = await beat(taskId, signal).catch(() => "running");
      if (said !== "running") throw new TaskOverError(taskId, said);
    };
  };

  const end = async (taskId: bigint, failure: Failure | undefined, signal: AbortSignal) => {
    const reason = failure === undefined ? "it was cancelled" : describeFailure(failure);
    log.warn({ task: String(taskId), reason }, "task refused");
    const alive = keepAlive(taskId, signal);
    // A cancel still wants its report, and what is over takes it without harm.
    const between = () => alive().catch(() => undefined);
    const failOnce = (deadline: AbortSignal) => fail(taskId, failure, deadline);
    await persist("ending a task in gitea", failOnce, taskId, between, 0, signal);
  };

  /** Tells `heldUp` from the first failure on. Done without a further try once others see to the task. */
  const persistHeld = async (
    what: string,
    work: (deadline: AbortSignal) => Promise<unknown>,
    { id, taskId }: Assignment,
    afterStopMs: number,
    signal: AbortSignal,
  ) => {
    using held = new DisposableStack();
    const alive = keepAlive(taskId, signal);
    let first = true;
    const between = async () => {
      if (first) held.use(heldUp.begin());
      first = false;
      // A beat would set the steps of a running job back.
      if (!isKnown(id)) await alive();
    };
    const unlessKnown = async (deadline: AbortSignal) => {
      if (!isKnown(id)) await work(deadline);
    };
    await persist(what, unlessKnown, taskId, between, afterStopMs, signal);
  };

  /**
   * Resolves to where the task is in the stream; undefined if others see to it already, or if it has been ended in
   * Gitea instead.
   */
  const store = async (queued: QueuedTask, signal: AbortSignal): Promise<number | undefined> => {
    const { assignment } = queued;
    const { taskId } = assignment;
    let sequence: number | undefined;
    const publishOnce = (deadline: AbortSignal) =>
      order.run("publish", async () => {
        ({ sequence } = await publish(queued, deadline));
      });
    try {
      await persistHeld("publishing a task", publishOnce, assignment, saveMs, signal);
    } catch (error) {
      if (!(error instanceof TaskOverError)) await end(taskId, whyNotStored(error), signal);
      else if (error.said === "cancelled") await end(taskId, undefined, signal);
      else log.warn({ task: String(taskId), said: error.said }, "task was over before it was stored");
    }
    return sequence;
  };

  /** Whatever goes wrong with a task that is in hand ends in its log: nobody else will ever see it. */
  const prepare = async (task: Task, fetchedAt: number): Promise<QueuedTask | Failure> => {
    try {
      const reading = read(task);
      if (reading.ok)
        return { assignment: reading.assignment, fetchedAt, compressedTask: await compress(task) };
      return reading.failure;
    } catch (error) {
      log.error({ task: String(task.id), error: describeError(error) }, "task cannot be read");
      // What the error says may be a part of the task.
      return failureFor("task_unreadable", "");
    }
  };

  return async (task: Task, fetchedAt: number, signal: AbortSignal): Promise<void> => {
    const queued = await order.run("prepare", () => prepare(task, fetchedAt));
    if (!("assignment" in queued)) return end(task.id, queued, signal);
    const sequence = await store(queued, signal);
    if (sequence === undefined) return;
    const { id, backend, repository, jobKey } = queued.assignment;
    log.info({ assignment: id, backend, repository, job: jobKey }, "task stored");
    try {
      const record = (deadline: AbortSignal) => offer({ ...queued, sequence }, deadline);
      await persistHeld("recording a task", record, queued.assignment, 0, signal);
    } catch (error) {
      // The task is durable already, and its delivery makes the record that this could not, and hears what Gitea says.
      if (!signal.aborted && !(error instanceof TaskOverError)) throw error;
    }
  };
}

/** Gitea does not want the task to run any more. */
class TaskOverError extends Error {
  override readonly name = "TaskOverError";
  readonly said: string;

  constructor(taskId: bigint, said: string) {
    super(`gitea says of task ${taskId}: ${said}`);
    this.said = said;
  }
}

function whyNotStored(error: unknown): Failure {
  return failureFor(neverStorable(error) ? "too_large" : "not_stored", describeError(error));
}

/** The queue says so by an error with the size limit that the task exceeds. */
function neverStorable(error: unknown): boolean {
  return error instanceof Error && "limit" in error;
}
