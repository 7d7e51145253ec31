import type { Clock } from "./clock.ts";

/** Keeps what others can cause as often as they like from filling the log. */
export type LogLimit = {
  /**
   * Whether a line about this key is due: the first one, and then one in each interval. Then it tells how many
   * were left out since the last one; undefined if this one is to be left out.
   */
  due(key: string): { readonly leftOut: number } | undefined;
};

export type LogLimitOptions = {
  readonly everyMs: number;
  /** Keys that are remembered; further ones share one. */
  readonly maxKeys: number;
};

type Last = { readonly at: number; leftOut: number };

export function createLogLimit({ everyMs, maxKeys }: LogLimitOptions, clock: Pick<Clock, "now">): LogLimit {
  // In the order of their times, because a key that is told again moves to the end.
  const lasts = new Map<string, Last>();
  const forget = (now: number) => {
    for (const [key, { at }] of lasts) {
      if (now - at < everyMs) return;
      lasts.delete(key);
    }
  };
  return {
    due: (wanted) => {
      const now = clock.now();
      const own = lasts.get(wanted);
      if (own === undefined && lasts.size >= maxKeys) forget(now);
      const key = own !== undefined || lasts.size < maxKeys ? wanted : "";
      const last = lasts.get(key);
      if (last !== undefined && now - last.at < everyMs) {
        last.leftOut++;
        return undefined;
      }
      lasts.delete(key);
      lasts.set(key, { at: now, leftOut: 0 });
      return { leftOut: last?.leftOut ?? 0 };
    },
  };
}
