import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import type { Logger } from "../platform/logger.ts";

export type NowAndThenOptions = {
  /** For the log: what is done, as in "comparing the stream". */
  readonly doing: string;
  readonly everyMs: number;
  readonly pass: (signal: AbortSignal) => Promise<void>;
  readonly clock: Clock;
  readonly log: Logger;
};

/** A pass now and then, the first after one interval; one that fails is told, and the next one is made. */
export async function nowAndThen(options: NowAndThenOptions, signal: AbortSignal): Promise<void> {
  const { doing, everyMs, clock, log } = options;
  while (!signal.aborted) {
    try {
      await clock.sleep(everyMs, signal);
      await options.pass(signal);
    } catch (error) {
      if (signal.aborted) return;
      log.error({ error: describeError(error) }, `${doing} failed, trying again`);
    }
  }
}
