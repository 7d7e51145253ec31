import { backoffMs, type Random } from "./backoff.ts";
import type { Clock } from "./clock.ts";
import { describeError } from "./errors.ts";
import type { Logger } from "./logger.ts";
import { isAbortOf } from "./signal.ts";

export type PersistOptions = {
  /** For the log: what is being tried, as in "recovering". */
  readonly doing: string;
  /** Whether an error may pass by itself; any other is not tried again. */
  readonly passing: (error: unknown) => boolean;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
};

const backoff = { firstMs: 1_000, maxMs: 10_000 };

/**
 * Does what has to be done before anything else makes sense, through outages of whatever length, loudly. Rejects
 * with an error that does not pass, or with the signal's reason.
 */
export async function persist<T>(
  work: (signal: AbortSignal) => Promise<T>,
  { doing, passing, clock, random, log }: PersistOptions,
  signal: AbortSignal,
): Promise<T> {
  for (let failures = 1; ; failures++) {
    try {
      return await work(signal);
    } catch (error) {
      if (isAbortOf(signal, error) || !passing(error)) throw error;
      log.error({ error: describeError(error), failures }, `${doing} failed, trying again`);
    }
    await clock.sleep(backoffMs(failures, backoff, random), signal);
  }
}
