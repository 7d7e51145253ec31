import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import type { Logger } from "../platform/logger.ts";

/** The facade will never serve us: the task is over, or another instance has it. Nothing is retried. */
export class RefusedError extends Error {
  override readonly name = "RefusedError";
}

export type Repetition = {
  /** Which call, for the log. */
  readonly what: string;
  /** Milliseconds between two tries. */
  readonly every: number;
  readonly clock: Clock;
  readonly log: Logger;
};

/** Repeats something until it succeeds. Rejects with RefusedError and with the reason of the signal only. */
export async function untilAnswered<T>(
  { what, every, clock, log }: Repetition,
  attempt: () => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  let told = "";
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof RefusedError) throw error;
      const text = describeError(error);
      if (text !== told) log.warn({ call: what, error: text }, "facade does not answer yet");
      told = text;
    }
    await clock.sleep(every, signal);
  }
}
