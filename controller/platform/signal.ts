/** Whether an error is this signal's own abort coming back. */
export function isAbortOf(signal: AbortSignal, error: unknown): boolean {
  return signal.aborted && error === signal.reason;
}

/** Settles as the promise does, or rejects with the signal's reason as soon as it is aborted. */
export async function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  // Nobody hears of it any more once the signal has won.
  promise.catch(() => undefined);
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  const abort = () => aborted.reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  try {
    return await Promise.race([promise, aborted.promise]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

/**
 * One call that must not take longer than `ms`, whatever it makes of its signal: rejects with a TimeoutError then,
 * or with the signal's reason. What the call does later is nobody's business any more.
 */
export async function withDeadline<T>(
  call: (signal: AbortSignal) => Promise<T>,
  ms: number,
  signal: AbortSignal,
): Promise<T> {
  signal.throwIfAborted();
  const either = AbortSignal.any([signal, AbortSignal.timeout(ms)]);
  return abortable(call(either), either);
}
