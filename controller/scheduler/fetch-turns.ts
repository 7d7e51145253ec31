import type { Clock } from "../platform/clock.ts";
import { abortable } from "../platform/signal.ts";

/**
 * Whose turn it is to ask Gitea. While tasks keep coming all fetchers ask at once; when one gets nothing it
 * rests, and of those that rest only one keeps asking, so that an idle controller polls once in an interval
 * however many fetchers it has.
 */
export type FetchTurns = {
  /** Called after a fetch that brought nothing: resolves when this fetcher should ask again. */
  rest(intervalMs: number, signal: AbortSignal): Promise<void>;
  /** There may be more: everyone asks now. */
  wake(): void;
};

export function createFetchTurns(clock: Clock): FetchTurns {
  let watching = false;
  let woken = Promise.withResolvers<void>();
  const watch = async (intervalMs: number, signal: AbortSignal) => {
    watching = true;
    const timer = new AbortController();
    try {
      const sleep = clock.sleep(intervalMs, AbortSignal.any([signal, timer.signal]));
      await Promise.race([sleep, woken.promise]);
      // The sleep that lost the race is ended below and rejects with nobody left to tell.
      sleep.catch(() => undefined);
    } finally {
      watching = false;
      timer.abort();
    }
  };
  const wake = () => {
    woken.resolve();
    woken = Promise.withResolvers<void>();
  };
  return {
    rest: (intervalMs, signal) => (watching ? abortable(woken.promise, signal) : watch(intervalMs, signal)),
    wake,
  };
}
