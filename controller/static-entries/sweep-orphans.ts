import type { Clock, SteadyClock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import type { Logger } from "../platform/logger.ts";
import { isAbortOf } from "../platform/signal.ts";

export type SweepOptions<T> = {
  /** Ours that are there now. */
  readonly found: (signal: AbortSignal) => readonly T[] | Promise<readonly T[]>;
  /** Another one for what is made anew for the same executor. */
  readonly keyOf: (thing: T) => string;
  readonly executorOf: (thing: T) => string;
  /** Whether the executor is certainly there; it costs nothing to ask. Nothing is certain unless given. */
  readonly isKnown?: (executor: string) => boolean;
  /** Whether it is there, from where executors run and not from memory; rejects if that cannot be told. */
  readonly isThere: (executor: string, signal: AbortSignal) => Promise<boolean>;
  /** False if it was not removed, being another by now. */
  readonly remove: (thing: T, signal: AbortSignal) => Promise<boolean>;
  /** What is swept, for the log. */
  readonly what: "registration" | "agent";
  readonly clock: Clock;
  readonly steady: SteadyClock;
  readonly log: Logger;
};

const everyMs = 30_000;
/** For so long it has to lack its executor, by a clock that nobody sets. */
const orphanMs = 60_000;

/**
 * Removes what was made for executors that are gone, until the signal is aborted: nothing else owns it, and a
 * controller may have died between the one and the other. Whether an executor is gone is asked right before. What fails
 * is told and tried again at the next turn.
 */
export async function sweepOrphans<T>(options: SweepOptions<T>, signal: AbortSignal): Promise<void> {
  const orphans = new Map<string, number>();
  try {
    for (;;) {
      await sweepOnce(options, orphans, signal);
      await options.clock.sleep(everyMs, signal);
    }
  } catch (error) {
    if (!isAbortOf(signal, error)) throw error;
  }
}

/** `orphans`: since when what has this key has been without an executor, as far as is known. */
async function sweepOnce<T>(
  options: SweepOptions<T>,
  orphans: Map<string, number>,
  signal: AbortSignal,
): Promise<void> {
  const { keyOf, executorOf, isKnown = () => false, steady, what, log } = options;
  const failed = (error: unknown, fields: object = {}) => {
    signal.throwIfAborted();
    log.warn({ ...fields, error: describeError(error) }, `sweeping ${what}s failed`);
  };
  let found: readonly T[];
  try {
    found = await options.found(signal);
  } catch (error) {
    return failed(error);
  }
  const now = steady();
  const lonely = found.filter((thing) => !isKnown(executorOf(thing)));
  const keys = new Set(lonely.map(keyOf));
  for (const key of orphans.keys()) if (!keys.has(key)) orphans.delete(key);
  for (const thing of lonely) {
    const [key, executor] = [keyOf(thing), executorOf(thing)];
    const since = orphans.get(key) ?? now;
    orphans.set(key, since);
    if (now - since < orphanMs) continue;
    try {
      if (await options.isThere(executor, signal)) {
        orphans.set(key, now);
        continue;
      }
      if (await options.remove(thing, signal)) log.warn({ executor }, `${what} without executor removed`);
    } catch (error) {
      failed(error, { executor });
    }
  }
}
