import { setTimeout as delay } from "node:timers/promises";

/** Time as a dependency: tests step it, nothing else reads the machine's clock. */
export type Clock = {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Resolves after `ms`; rejects with the signal's reason as soon as it is aborted. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
};

/** The machine's own clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  sleep: async (ms, signal) => {
    try {
      await delay(ms, undefined, { signal });
    } catch (error) {
      throw signal.aborted ? signal.reason : error;
    }
  },
};

/**
 * Milliseconds of a clock that nobody sets, from a beginning of its own: for how long something took. It goes on while
 * the process is stopped.
 */
export type SteadyClock = () => number;

/** CLOCK_MONOTONIC. */
export const systemSteadyClock: SteadyClock = () => performance.now();
