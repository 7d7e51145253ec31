import { createWakeup } from "../platform/wakeup.ts";

/**
 * Tasks in hand that could not be made durable at the first try. While there is one no other task is fetched: it
 * would have nowhere to go either, and waits better in Gitea.
 */
export type HeldUp = {
  /** One more, until it is disposed of. */
  begin(): Disposable;
  /** Resolves when there is none; rejects with the signal's reason. */
  over(signal: AbortSignal): Promise<void>;
};

export function createHeldUp(): HeldUp {
  const changed = createWakeup();
  const held = new Set<symbol>();
  return {
    begin: () => {
      const one = Symbol("held up");
      held.add(one);
      return {
        [Symbol.dispose]: () => {
          held.delete(one);
          changed.wake();
        },
      };
    },
    over: async (signal) => {
      signal.throwIfAborted();
      while (held.size > 0) await changed.next(signal);
    },
  };
}
