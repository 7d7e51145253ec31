/** Lets loops wait for "something changed" without polling. A wake-up that nobody waits for is not kept. */
export type Wakeup = {
  /** Wakes everyone who waits now. */
  wake(): void;
  /** Resolves at the next wake-up; rejects with the signal's reason. */
  next(signal: AbortSignal): Promise<void>;
};

export function createWakeup(): Wakeup {
  // Not a promise that all wait for: it would hold everything that ever waited, until it is settled.
  const waiting = new Set<() => void>();
  return {
    wake: () => {
      const woken = [...waiting];
      waiting.clear();
      for (const goOn of woken) goOn();
    },
    next: async (signal) => {
      signal.throwIfAborted();
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const abort = () => reject(signal.reason);
      waiting.add(resolve);
      signal.addEventListener("abort", abort, { once: true });
      try {
        await promise;
      } finally {
        waiting.delete(resolve);
        signal.removeEventListener("abort", abort);
      }
    },
  };
}

/**
 * Waits for whichever comes first. It listens from its creation on, so that a loop can look at the world after
 * that and miss nothing that happens meanwhile; a rejection meanwhile is kept for `first`. Dispose of it after
 * each round.
 */
export function listenForAny(
  waits: readonly ((signal: AbortSignal) => Promise<void>)[],
  signal: AbortSignal,
): Disposable & { first(): Promise<void> } {
  const over = new AbortController();
  const either = AbortSignal.any([signal, over.signal]);
  const first = Promise.race(waits.map((wait) => wait(either)));
  // Nobody may be waiting yet when the signal is aborted.
  first.catch(() => undefined);
  return {
    first: () => first,
    [Symbol.dispose]: () => {
      over.abort();
    },
  };
}
