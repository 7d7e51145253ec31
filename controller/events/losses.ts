import type { Logger } from "../platform/logger.ts";

/** Counts events that are lost, and says so once for each time that it begins and ends. */
export type Losses = {
  lost(count: number, why: string): void;
  /** Nothing waits any more, and what came was stored. */
  over(): void;
  /** Since the process began. */
  total(): number;
};

export function createLosses(log: Logger): Losses {
  let total = 0;
  /** The total before the losses that go on now. */
  let before: number | undefined;
  return {
    lost: (count, why) => {
      if (count === 0) return;
      if (before === undefined) log.warn({ reason: why }, "events are dropped");
      before ??= total;
      total += count;
    },
    over: () => {
      if (before !== undefined) log.info({ dropped: total - before }, "events are kept again");
      before = undefined;
    },
    total: () => total,
  };
}
