import { text } from "node:stream/consumers";
import { signalGroup, spawnWatched, type WatchedCommand } from "./process-group.ts";
import { within } from "./within.ts";

/** How a program ended, where any way is an answer. */
export type Outcome = {
  /** Null where a signal ended it. */
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
};

export type LimitedCommand = WatchedCommand & {
  /** Milliseconds until it is ended. */
  readonly deadline: number;
};

const graceMs = 10_000;

/**
 * Runs a program to its end, whatever that is. Rejects where it cannot be started, or once it and all that it started have ended
 * because it took longer than it may, or because the signal is aborted.
 */
export async function runToEnd(command: LimitedCommand, signal: AbortSignal): Promise<Outcome> {
  const what = [command.program, ...command.args.slice(0, 1)].join(" ");
  return await within(command.deadline, what, (inner) => untilEnd(command, inner), signal);
}

async function untilEnd(command: LimitedCommand, signal: AbortSignal): Promise<Outcome> {
  signal.throwIfAborted();
  const { child, endWatch } = spawnWatched(command);
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  const { pid } = child;
  if (pid === undefined) {
    endWatch();
    await ended;
    throw new Error(`cannot run ${command.program}`);
  }
  let killer: NodeJS.Timeout | undefined;
  const abort = () => {
    // As Ctrl-C: it may have something to put in order.
    signalGroup(pid, "SIGINT");
    killer = setTimeout(() => signalGroup(pid, "SIGKILL"), graceMs);
  };
  signal.addEventListener("abort", abort, { once: true });
  try {
    const [exitCode, stdout, stderr] = await Promise.all([ended, text(child.stdout), text(child.stderr)]);
    signal.throwIfAborted();
    return { exitCode, stdout, stderr };
  } finally {
    signal.removeEventListener("abort", abort);
    clearTimeout(killer);
    signalGroup(pid, "SIGKILL");
    endWatch();
  }
}
