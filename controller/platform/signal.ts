import type { Clock } from "./clock.ts";

/** Whether an error is this signal's own abort coming back. */
export function isAbortOf(signal: AbortSignal, error: unknown): boolean {
  return signal.aborted && error === signal.reason;
}

/** Resolves when it is aborted. */
export async function untilAborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  signal.addEventListener("abort", () => resolve(), { once: true });
  await promise;
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
  clock: Pick<Clock, "sleep">,
  ms: number,
  call: (signal: AbortSignal) => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  signal.throwIfAborted();
  const [late, settled] = [new AbortController(), new AbortController()];
  const expire = () => {
    late.abort(new DOMException(`no answer within ${ms / 1000} s`, "TimeoutError"));
  };
  // Rejects when the call has settled first, which is nobody's failure.
  clock.sleep(ms, settled.signal).then(expire, () => undefined);
  const either = AbortSignal.any([signal, late.signal]);
  try {
    return await abortable(call(either), either);
  } finally {
    settled.abort();
  }
}
