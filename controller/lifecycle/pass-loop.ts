import type { Times } from "../assignment/times.ts";
import type { Clock } from "../platform/clock.ts";
import { createWakeup, listenForAny } from "../platform/wakeup.ts";

export type PassLoopOptions = {
  readonly pass: (signal: AbortSignal) => Promise<void>;
  readonly onError: (error: unknown) => void;
  /** The phases of all records: of their other changes no pass is needed. */
  readonly phases: () => ReadonlyMap<string, string>;
  readonly changed: (signal: AbortSignal) => Promise<void>;
  /** The backend tells of a change; returns how to stop that. */
  readonly onMoved: (listener: () => void) => () => void;
  readonly times: Pick<Times, "reconcileMs" | "againMs">;
  readonly clock: Clock;
};

/** A pass at once, whenever something moved, and now and then; after an error soon again. Ends with the signal. */
export async function runPasses(options: PassLoopOptions, signal: AbortSignal): Promise<void> {
  const { times, clock } = options;
  const moved = createWakeup();
  let asked = true;
  const stop = options.onMoved(() => {
    asked = true;
    moved.wake();
  });
  let lookedAt = clock.now();
  let phases: ReadonlyMap<string, string> = new Map();
  const isDue = () => {
    const age = clock.now() - lookedAt;
    return asked || age < 0 || age >= times.reconcileMs || !sameEntries(phases, options.phases());
  };
  try {
    while (!signal.aborted) {
      using woken = listenForAny(
        [
          (either) => moved.next(either),
          (either) => options.changed(either),
          (either) => clock.sleep(Math.max(0, lookedAt + times.reconcileMs - clock.now()), either),
        ],
        signal,
      );
      try {
        if (!isDue()) {
          await woken.first();
          continue;
        }
        asked = false;
        lookedAt = clock.now();
        phases = options.phases();
        await options.pass(signal);
      } catch (error) {
        if (signal.aborted) return;
        options.onError(error);
        asked = true;
        await clock.sleep(times.againMs, signal).catch(() => undefined);
      }
    }
  } finally {
    stop();
  }
}

function sameEntries(a: ReadonlyMap<string, string>, b: ReadonlyMap<string, string>): boolean {
  return a.size === b.size && [...a].every(([key, value]) => b.get(key) === value);
}
