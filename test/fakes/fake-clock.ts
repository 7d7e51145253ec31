import type { Clock } from "../../controller/platform/clock.ts";

type Sleeper = { readonly at: number; wake(): void };

/** A clock that stands still until a test steps it. */
export type FakeClock = Clock & {
  /** Moves time on, waking sleepers in the order of their deadlines and letting each run before the next. */
  step(ms: number): Promise<void>;
  /** Resolves as soon as at least `count` sleeps are waiting. */
  waiting(count?: number): Promise<void>;
  /** The deadlines that are waited for, as milliseconds from now, smallest first. */
  pending(): readonly number[];
};

/** Lets every promise that is ready to run do so. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve));
}

export function createFakeClock(start = Date.parse("2026-01-01T00:00:00Z")): FakeClock {
  let now = start;
  let sleepers: Sleeper[] = [];
  let watchers: { readonly count: number; done(): void }[] = [];
  const notify = () => {
    const ready = watchers.filter((watcher) => sleepers.length >= watcher.count);
    watchers = watchers.filter((watcher) => sleepers.length < watcher.count);
    for (const watcher of ready) watcher.done();
  };
  const sleep = (ms: number, signal: AbortSignal) =>
    new Promise<void>((resolve, reject) => {
      if (signal.aborted) {
        reject(signal.reason as Error);
        return;
      }
      const abort = () => {
        sleepers = sleepers.filter((other) => other !== sleeper);
        reject(signal.reason as Error);
      };
      const sleeper: Sleeper = {
        at: now + Math.max(0, ms),
        wake: () => {
          signal.removeEventListener("abort", abort);
          resolve();
        },
      };
      signal.addEventListener("abort", abort, { once: true });
      sleepers.push(sleeper);
      notify();
    });
  return {
    now: () => now,
    sleep,
    step: async (ms) => {
      const end = now + ms;
      for (;;) {
        await settle();
        const next = sleepers.toSorted((a, b) => a.at - b.at)[0];
        if (next === undefined || next.at > end) break;
        now = Math.max(now, next.at);
        sleepers = sleepers.filter((other) => other !== next);
        next.wake();
      }
      now = end;
      await settle();
    },
    waiting: (count = 1) =>
      new Promise((resolve) => {
        watchers.push({ count, done: resolve });
        notify();
      }),
    pending: () => sleepers.map((sleeper) => sleeper.at - now).toSorted((a, b) => a - b),
  };
}
