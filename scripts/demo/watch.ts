import { systemClock } from "../../controller/platform/clock.ts";
import { createWakeup } from "../../controller/platform/wakeup.ts";
import type { ControllerLine } from "../quick-start/controller-process.ts";
import { createNarrator } from "./narrate.ts";

/** Says what happens to jobs, with the time since the push, and knows when their executors are gone. */
export type Watch = {
  onLine(line: ControllerLine): void;
  /** The push: times count from here. Returns it, in milliseconds since the epoch. */
  begin(): number;
  /** Resolves when so many executors have been deleted; rejects with the signal's reason. */
  deleted(count: number, signal: AbortSignal): Promise<void>;
};

export function createWatch(say: (line: string) => void): Watch {
  const narrate = createNarrator();
  const moved = createWakeup();
  let pushed = systemClock.now();
  let deletions = 0;
  return {
    onLine: (line) => {
      const happening = narrate(line);
      if (happening !== undefined)
        say(`${secondsSince(pushed)}  ${happening.job.padEnd(11)} ${happening.text}`);
      if (line.msg !== "executor deleted") return;
      deletions++;
      moved.wake();
    },
    begin: () => (pushed = systemClock.now()),
    deleted: async (count, signal) => {
      for (;;) {
        if (deletions >= count) return;
        await moved.next(signal);
      }
    },
  };
}

/** Seconds since a moment, for the left column. */
export function secondsSince(moment: number): string {
  return `${((systemClock.now() - moment) / 1000).toFixed(2).padStart(7)} s`;
}
