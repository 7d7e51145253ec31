import type { Clock } from "../../platform/clock.ts";
import { describeError } from "../../platform/errors.ts";
import type { Logger } from "../../platform/logger.ts";
import { isAbortOf } from "../../platform/signal.ts";
import type { Registration } from "./registration.ts";

const everyMs = 60_000;

/**
 * Removes what a controller that died left registered, at once and then every minute, until the signal is aborted.
 * A sweep that fails is told and tried again at the next turn.
 */
export async function sweepRegistrations(
  parts: {
    readonly registration: Pick<Registration, "sweep">;
    readonly executors: () => Promise<readonly string[]>;
    readonly clock: Clock;
    readonly log: Logger;
  },
  signal: AbortSignal,
): Promise<void> {
  const { registration, executors, clock, log } = parts;
  try {
    for (;;) {
      try {
        for (const executor of await registration.sweep(executors, signal))
          log.warn({ executor }, "registration without executor removed");
      } catch (error) {
        signal.throwIfAborted();
        log.warn({ error: describeError(error) }, "sweeping registrations failed");
      }
      await clock.sleep(everyMs, signal);
    }
  } catch (error) {
    if (!isAbortOf(signal, error)) throw error;
  }
}
