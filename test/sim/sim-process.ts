import type { Clock } from "../../controller/platform/clock.ts";
import type { SimClock } from "./sim-clock.ts";

/**
 * One process of the simulated world. A dead one never runs again: what it waits for stays unanswered. One that is
 * stopped (SIGSTOP, a paused machine) runs on where it was, late.
 */
export type SimProcess = {
  readonly name: string;
  readonly state: "running" | "stopped" | "dead";
  /** Its own view of the time; what it waits for reaches it only while it runs. */
  readonly clock: Clock;
  /** Runs the callback when the process runs: now, once it goes on, or never. */
  deliver(callback: () => void): void;
  kill(): void;
  stop(): void;
  goOn(): void;
  /** Sets its clock forward or back, as a correction of the machine's time does. Sleeps are not changed by that. */
  shiftClock(ms: number): void;
};

export function createSimProcess(name: string, world: SimClock): SimProcess {
  let state: SimProcess["state"] = "running";
  let shift = 0;
  let late: (() => void)[] = [];

  const deliver = (callback: () => void) => {
    if (state === "running") callback();
    else if (state === "stopped") late.push(callback);
  };
  return {
    name,
    get state() {
      return state;
    },
    clock: {
      now: () => world.now() + shift,
      sleep: (ms, signal) => {
        const woken = Promise.withResolvers<void>();
        if (state !== "dead")
          world
            .sleep(ms, signal)
            .then(() => deliver(woken.resolve))
            .catch((reason: unknown) => deliver(() => woken.reject(reason)));
        return woken.promise;
      },
    },
    deliver,
    kill: () => {
      state = "dead";
      late = [];
    },
    stop: () => {
      if (state === "running") state = "stopped";
    },
    goOn: () => {
      if (state !== "stopped") return;
      state = "running";
      const waiting = late;
      late = [];
      // One after the other: each may be the last before somebody else acts.
      for (const callback of waiting) world.after(0, () => deliver(callback));
    },
    shiftClock: (ms) => {
      shift += ms;
    },
  };
}
