import { setImmediate as afterPromises } from "node:timers";
import type { Clock } from "../../controller/platform/clock.ts";

/** Time that jumps from event to event, and with it everything that happens in a simulation. */
export type SimClock = Clock & {
  /** Calls back after `ms`; returns how to call it off. */
  after(ms: number, callback: () => void): () => void;
  /**
   * Lets things happen, one after the other, each with all promises that it makes ready, until the condition holds
   * (true) or time would pass `untilMs` (false).
   */
  run(untilMs: number, isOver?: () => boolean): Promise<boolean>;
  /** How many things have happened. */
  readonly events: number;
};

type Timer = { readonly at: number; readonly order: number; callback: (() => void) | undefined };

export function createSimClock(start: number): SimClock {
  const timers: Timer[] = [];
  let now = start;
  let order = 0;
  let events = 0;

  const after = (ms: number, callback: () => void) => {
    // Whole milliseconds, as a machine's clock has them.
    const timer: Timer = { at: now + Math.max(0, Math.ceil(ms)), order: order++, callback };
    push(timers, timer);
    return () => {
      timer.callback = undefined;
    };
  };

  return {
    now: () => now,
    after,
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        if (signal.aborted) {
          reject(signal.reason as Error);
          return;
        }
        const abort = () => {
          cancel();
          reject(signal.reason as Error);
        };
        const cancel = after(ms, () => {
          signal.removeEventListener("abort", abort);
          resolve();
        });
        signal.addEventListener("abort", abort, { once: true });
      }),
    run: async (untilMs, isOver = () => false) => {
      await drained();
      for (;;) {
        if (isOver()) return true;
        const timer = pop(timers, untilMs);
        if (timer === undefined) break;
        if (timer.callback === undefined) continue;
        now = Math.max(now, timer.at);
        events++;
        timer.callback();
        await drained();
      }
      now = Math.max(now, untilMs);
      return isOver();
    },
    get events() {
      return events;
    },
  };
}

/** Every promise that is ready has run: they all go before the next macrotask. */
function drained(): Promise<void> {
  return new Promise((resolve) => {
    afterPromises(resolve);
  });
}

function before(a: Timer, b: Timer): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}

/** A binary heap, its smallest first. */
function push(heap: Timer[], timer: Timer): void {
  let index = heap.length;
  heap.push(timer);
  while (index > 0) {
    const above = (index - 1) >> 1;
    const parent = heap[above];
    if (parent === undefined || !before(timer, parent)) break;
    heap[index] = parent;
    index = above;
  }
  heap[index] = timer;
}

function pop(heap: Timer[], untilMs: number): Timer | undefined {
  const first = heap[0];
  if (first === undefined || first.at > untilMs) return undefined;
  const last = heap.pop();
  if (last === undefined || heap.length === 0) return first;
  let index = 0;
  for (;;) {
    const left = heap[2 * index + 1];
    const right = heap[2 * index + 2];
    const smaller = left !== undefined && right !== undefined && before(right, left) ? right : left;
    if (smaller === undefined || !before(smaller, last)) break;
    const place: number = smaller === right ? 2 * index + 2 : 2 * index + 1;
    heap[index] = smaller;
    index = place;
  }
  heap[index] = last;
  return first;
}
