import { abortable } from "./signal.ts";

/** Lets loops wait for "something changed" without polling. A wake-up that nobody waits for is not kept. */
export type Wakeup = {
  /** Wakes everyone who waits now. */
  wake(): void;
  /** Resolves at the next wake-up; rejects with the signal's reason. */
  next(signal: AbortSignal): Promise<void>;
};

export function createWakeup(): Wakeup {
  let pending = Promise.withResolvers<void>();
  return {
    wake: () => {
      pending.resolve();
      pending = Promise.withResolvers<void>();
    },
    next: (signal) => abortable(pending.promise, signal),
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
