import type { Clock } from "../platform/clock.ts";
import type { ListedProcess } from "./process-list.ts";
import { nameOf, orphans, stepProcesses, stillThere } from "./step-processes.ts";

export type EndOrphansOptions = {
  readonly list: () => readonly ListedProcess[];
  /** To a process; one that is gone or not ours is no error. */
  readonly signal: (pid: number, name: "SIGTERM" | "SIGKILL") => void;
  /** gitea-runner's process. */
  readonly runner: number;
  readonly clock: Clock;
  /** Milliseconds from SIGTERM to SIGKILL. */
  readonly grace: number;
};

const lookEvery = 250;

/**
 * Ends what the step that runs now leaves behind when gitea-runner ends its shell; what earlier steps left running
 * stays, the steps that still come may need it. Looks before it returns for the first time, and goes on until the
 * signal is aborted; never rejects.
 */
export async function endOrphans(options: EndOrphansOptions, signal: AbortSignal): Promise<void> {
  const { list, runner, clock, grace } = options;
  let steps = stepProcesses(list(), runner);
  const toldAt = new Map<string, number>();
  const look = () => {
    const all = list();
    steps = stillThere(all, steps);
    for (const process of orphans(all, runner, steps)) {
      const told = toldAt.get(nameOf(process));
      if (told === undefined) {
        toldAt.set(nameOf(process), clock.now());
        options.signal(process.pid, "SIGTERM");
      } else if (clock.now() - told >= grace) options.signal(process.pid, "SIGKILL");
    }
  };
  while (!signal.aborted) {
    await clock.sleep(lookEvery, signal).catch(() => undefined);
    if (!signal.aborted) look();
  }
}

/** For `EndOrphansOptions.signal`. */
export function signalProcess(pid: number, name: "SIGTERM" | "SIGKILL"): void {
  try {
    process.kill(pid, name);
  } catch {
    // It has just ended, or it is not ours to end (sudo): the executor's end will be its own.
  }
}
