import type { FetchTaskResponse, Task } from "../../proto/gen/runner/v1/runner_pb.ts";
import type { BackendKind } from "../assignment/backend-kind.ts";
import { backoffMs, type Random } from "../platform/backoff.ts";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import type { Logger } from "../platform/logger.ts";
import { isAbortOf } from "../platform/signal.ts";
import { createWakeup, listenForAny } from "../platform/wakeup.ts";
import { openBackends, type BackendLoad } from "./backlog.ts";
import { createFetchGate } from "./fetch-gate.ts";
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
  /** What to declare while these backends take tasks. */
  readonly labelsFor: (backends: readonly BackendKind[]) => readonly string[];
  /** What waits in each selected backend … */
  readonly loads: () => readonly BackendLoad[];
  /** … and when that may be different. */
  readonly loadsChanged: (signal: AbortSignal) => Promise<void>;
  /** Says when every task in hand is durable. */
  readonly heldUp: { over(signal: AbortSignal): Promise<void> };
  /**
   * Called when a fetch came to no answer: Gitea may have chosen a task for it of which we never hear, and which it
   * ends by itself.
   */
  readonly onFetchLost?: () => void;
  /** Throws if this process leads no more; asked right before each fetch and declaration. */
  readonly mustLead?: () => void;
  /** Of all selected workers: so many fetches run at once, up to a few. */
  readonly capacity: number;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
};

export type Scheduler = {
  /**
   * Rejects if Gitea does not know the registration at the start: only an operator can help then. Otherwise
   * declares, then fetches until the signal is aborted; a fetch under way and its task are finished first. A backend
   * whose backlog is full is declared away until it is not. A task in hand is tried to be stored until `holding` is
   * aborted, which is the signal itself unless given.
   */
  run(signal: AbortSignal, holding?: AbortSignal): Promise<void>;
  /** A place became free: Gitea is asked to look even if nothing new came. */
  lookAgain(): void;
  /** When Gitea last answered, in milliseconds since the epoch; undefined before the first answer. */
  answeredAt(): number | undefined;
};

const errorBackoff = { firstMs: 500, maxMs: 5_000 };
/** Not registered any more: an operator has to act, asking often helps nobody. */
const unregisteredMs = 60_000;
const idleMs = 1_000;
/**
 * Each fetch is a transaction that looks for a job: dozens at once keep a Gitea on SQLite from answering anything
 * else, the look before a create among it. A few of them fetch more than executors can start.
 */
const mostFetchers = 4;
/** What waits gets older without telling. */
const loadsTickMs = 15_000;

export function createScheduler(options: SchedulerOptions): Scheduler {
  const { gitea, take, heldUp, capacity, clock, random, log, mustLead = () => undefined } = options;
  const tasksVersion = createTasksVersion();
  const turns = createFetchTurns(clock);
  const gate = createFetchGate();
  const opened = createWakeup();
  /** The backends whose labels Gitea knows of. */
  let declared: readonly BackendKind[] = [];
  let answeredAt: number | undefined;

  const pause = async (failures: number, error: unknown, signal: AbortSignal) => {
    log.error({ error: describeError(error), failures }, "scheduler error");
    const ms = isUnregistered(error) ? unregisteredMs : backoffMs(failures, errorBackoff, random);
    await ignoringAbort(clock.sleep(ms, signal), signal);
  };

  const declare = async (backends: readonly BackendKind[], signal: AbortSignal) => {
    const labels = options.labelsFor(backends);
    for (let failures = 1; !signal.aborted; failures++) {
      try {
        mustLead();
        await gitea.declare(labels, signal);
        answeredAt = clock.now();
        declared = backends;
        tasksVersion.lookAgain();
        opened.wake();
        turns.wake();
        log.info({ labels }, "declared to gitea");
        return;
      } catch (error) {
        if (answeredAt === undefined && isUnregistered(error))
          throw new Error(
            "gitea knows no runner with GITEA_RUNNER_UUID and the token in GITEA_RUNNER_TOKEN_FILE",
            { cause: error },
          );
        if (!signal.aborted) await pause(failures, error, signal);
      }
    }
  };

  /** Keeps what is declared in step with what the backends can take. */
  const followLoads = async (signal: AbortSignal) => {
    while (!signal.aborted) {
      using moved = listenForAny(
        [options.loadsChanged, (either) => clock.sleep(loadsTickMs, either)],
        signal,
      );
      const open = openBackends(options.loads());
      if (open.join() === declared.join()) await ignoringAbort(moved.first(), signal);
      else
        await ignoringAbort(
          gate.declare(() => declare(open, signal), signal),
          signal,
        );
    }
  };

  const fetch = async (version: bigint): Promise<FetchTaskResponse> => {
    try {
      return await gitea.fetchTask(version);
    } catch (error) {
      if (!isAnswer(error)) options.onFetchLost?.();
      throw error;
    }
  };

  /** Resolves to whether a task came. Not given the signal: a fetch that is cut short can lose its task. */
  const fetchOnce = async (signal: AbortSignal, holding: AbortSignal): Promise<boolean> => {
    const { answer, epoch } = await gate.fetch(async () => {
      mustLead();
      const next = tasksVersion.next(clock.now());
      return { answer: await fetch(next.version), epoch: next.epoch };
    }, signal);
    answeredAt = clock.now();
    if (answer.task === undefined) {
      tasksVersion.answered(epoch, answer.tasksVersion);
      return false;
    }
    tasksVersion.lookAgain();
    turns.wake();
    await take(answer.task, answeredAt, holding);
    return true;
  };

  const fetcher = async (signal: AbortSignal, holding: AbortSignal) => {
    let failures = 0;
    while (!signal.aborted) {
      if (declared.length === 0) {
        // With no backend's label a fetch could only bring what nobody can run.
        await ignoringAbort(opened.next(signal), signal);
        continue;
      }
      try {
        await heldUp.over(signal);
        const came = await fetchOnce(signal, holding);
        failures = 0;
        const interval = idleMs * (0.9 + 0.2 * random());
        if (!came && !signal.aborted) await ignoringAbort(turns.rest(interval, signal), signal);
      } catch (error) {
        if (isAbortOf(signal, error)) return;
        tasksVersion.lookAgain();
        failures++;
        await pause(failures, error, signal);
      }
    }
  };

  return {
    run: async (signal, holding = signal) => {
      await declare(openBackends(options.loads()), signal);
      const fetchers = Array.from({ length: Math.min(capacity, mostFetchers) }, () =>
        fetcher(signal, holding),
      );
      await Promise.all([followLoads(signal), ...fetchers]);
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

/** Whether it is Gitea's own word that failed, and not the way to or from it. */
function isAnswer(error: unknown): boolean {
  return error instanceof Error && "answered" in error && error.answered === true;
}

function isUnregistered(error: unknown): boolean {
  return error instanceof Error && "fault" in error && error.fault === "unregistered";
}
