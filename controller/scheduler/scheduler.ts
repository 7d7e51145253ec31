import type { FetchTaskResponse, Task } from "../../proto/gen/runner/v1/runner_pb.ts";
import { backoffMs, type Random } from "../platform/backoff.ts";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import type { Logger } from "../platform/logger.ts";
import { createFetchTurns } from "./fetch-turns.ts";
import { createTasksVersion } from "./tasks-version.ts";

/** Our registration in Gitea; its calls reject with errors that carry a `fault`. */
export type Registration = {
  declare(labels: readonly string[], signal: AbortSignal): Promise<unknown>;
  fetchTask(tasksVersion: bigint): Promise<FetchTaskResponse>;
};

export type SchedulerOptions = {
  readonly gitea: Registration;
  /** Makes the task durable, or ends it in Gitea; no other is fetched by the same fetcher before it settles. */
  readonly take: (task: Task, fetchedAt: number, signal: AbortSignal) => Promise<void>;
  readonly labels: readonly string[];
  /** How many fetches may run at once: the capacity of all selected workers. */
  readonly capacity: number;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
};

export type Scheduler = {
  /** Declares once, then fetches until the signal is aborted; a fetch under way and its task are finished first. */
  run(signal: AbortSignal): Promise<void>;
  /** A place became free: Gitea is asked to look even if nothing new came. */
  lookAgain(): void;
  /** When Gitea last answered, in milliseconds since the epoch; undefined before the first answer. */
  answeredAt(): number | undefined;
};

const errorBackoff = { firstMs: 500, maxMs: 5_000 };
/** Not registered any more: an operator has to act, asking often helps nobody. */
const unregisteredMs = 60_000;
const idleMs = 1_000;

export function createScheduler(options: SchedulerOptions): Scheduler {
  const { gitea, take, labels, capacity, clock, random, log } = options;
  const tasksVersion = createTasksVersion();
  const turns = createFetchTurns(clock);
  let answeredAt: number | undefined;

  const pause = async (failures: number, error: unknown, signal: AbortSignal) => {
    log.error({ error: describeError(error), failures }, "scheduler error");
    const ms = isUnregistered(error) ? unregisteredMs : backoffMs(failures, errorBackoff, random);
    await ignoringAbort(clock.sleep(ms, signal), signal);
  };

  const declare = async (signal: AbortSignal) => {
    for (let failures = 1; !signal.aborted; failures++) {
      try {
        await gitea.declare(labels, signal);
        answeredAt = clock.now();
        tasksVersion.lookAgain();
        log.info({ labels }, "declared to gitea");
        return;
      } catch (error) {
        if (!signal.aborted) await pause(failures, error, signal);
      }
    }
  };

  /** Resolves to whether a task came. Not given the signal: a fetch that is cut short can lose its task. */
  const fetchOnce = async (signal: AbortSignal): Promise<boolean> => {
    const { version, epoch } = tasksVersion.next(clock.now());
    const answer = await gitea.fetchTask(version);
    answeredAt = clock.now();
    if (answer.task === undefined) {
      tasksVersion.answered(epoch, answer.tasksVersion);
      return false;
    }
    tasksVersion.lookAgain();
    turns.wake();
    await take(answer.task, answeredAt, signal);
    return true;
  };

  const fetcher = async (signal: AbortSignal) => {
    let failures = 0;
    while (!signal.aborted) {
      try {
        const came = await fetchOnce(signal);
        failures = 0;
        const interval = idleMs * (0.9 + 0.2 * random());
        if (!came && !signal.aborted) await ignoringAbort(turns.rest(interval, signal), signal);
      } catch (error) {
        tasksVersion.lookAgain();
        failures++;
        await pause(failures, error, signal);
      }
    }
  };

  return {
    run: async (signal) => {
      await declare(signal);
      await Promise.all(Array.from({ length: capacity }, () => fetcher(signal)));
    },
    lookAgain: () => {
      tasksVersion.lookAgain();
      turns.wake();
    },
    answeredAt: () => answeredAt,
  };
}

/** The loops look at the signal themselves. */
async function ignoringAbort(wait: Promise<void>, signal: AbortSignal): Promise<void> {
  try {
    await wait;
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

function isUnregistered(error: unknown): boolean {
  return error instanceof Error && "fault" in error && error.fault === "unregistered";
}
