import type { Clock } from "../platform/clock.ts";

/** Something took longer than it may; whether it was done is unknown. */
export class DeadlineError extends Error {
  override readonly name = "DeadlineError";
}

/**
 * Runs something that ends when its signal is aborted, and aborts it after `ms`. Rejects with DeadlineError
 * then, with the reason of `signal` when that came first, else with the error of what ran.
 */
export async function withDeadline<T>(
  clock: Clock,
  ms: number,
  run: (signal: AbortSignal) => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  const expired = new AbortController();
  const settled = new AbortController();
  const expire = () => expired.abort(new DeadlineError(`not done within ${ms / 1000} s`));
  const timer = clock.sleep(ms, settled.signal).then(expire, () => undefined);
  try {
    signal.throwIfAborted();
    return await run(AbortSignal.any([signal, expired.signal]));
  } catch (error) {
    signal.throwIfAborted();
    expired.signal.throwIfAborted();
    throw error;
  } finally {
    settled.abort();
    await timer;
  }
}
