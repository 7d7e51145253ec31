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
