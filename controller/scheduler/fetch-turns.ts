import type { Clock } from "../platform/clock.ts";
import { createWakeup, listenForAny } from "../platform/wakeup.ts";

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
  const woken = createWakeup();
  const watch = async (intervalMs: number, signal: AbortSignal) => {
    watching = true;
    using either = listenForAny(
      [(inner) => clock.sleep(intervalMs, inner), (inner) => woken.next(inner)],
      signal,
    );
    try {
      await either.first();
    } finally {
      watching = false;
    }
  };
  return {
    rest: (intervalMs, signal) => (watching ? woken.next(signal) : watch(intervalMs, signal)),
    wake: () => {
      woken.wake();
    },
  };
}
