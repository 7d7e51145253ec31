import type { ChildProcessByStdio } from "node:child_process";
import { spawn } from "node:child_process";
import type { Readable } from "node:stream";

/** Signals every process of a group; one that is gone already is no error. */
export function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

export type WatchedCommand = {
  readonly program: string;
  readonly args: readonly string[];
  readonly folder?: string | undefined;
  readonly environment: NodeJS.ProcessEnv;
  readonly uid?: number | undefined;
  readonly gid?: number | undefined;
};

export type Watched = {
  /** Its pid is the number of its group. A program that is not there ends with exit code 127 and a line on stderr. */
  readonly child: ChildProcessByStdio<null, Readable, Readable>;
  /** Ends the watch; call it when the group has ended, and when it never began. */
  readonly endWatch: () => void;
};

/** Reads the number of a group, then waits for the end of its input, which is the end of us. */
const watchScript = 'read -r group; while read -r _; do :; done; kill -s KILL -- "-$group"';
/** Tells the watch its own pid, then becomes the program. */
const startScript = 'echo "$$" >&3; exec 3>&-; exec "$0" "$@"';

/**
 * Starts a program in a process group of its own, and somebody who kills that group as soon as this process is gone, however it
 * ended: such a group hears neither Ctrl-C nor the end of its parent, so a shell waits for the end of a pipe that only we hold
 * open. The program's own process tells that shell of itself before it becomes the program. Were we to tell, we could be killed
 * between the start and the telling.
 */
export function spawnWatched(command: WatchedCommand): Watched {
  const watch = spawn("/bin/sh", ["-c", watchScript], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  watch.on("error", () => {
    // There is no process to be had; the child says so.
  });
  watch.stdin.on("error", () => {
    // The watch was ended by somebody else.
  });
  watch.unref();
  const child = spawn("/bin/sh", ["-c", startScript, command.program, ...command.args], {
    cwd: command.folder,
    env: command.environment,
    uid: command.uid,
    gid: command.gid,
    stdio: ["ignore", "pipe", "pipe", watch.stdin],
    detached: true,
  }) as ChildProcessByStdio<null, Readable, Readable>;
  return { child, endWatch: () => void watch.kill("SIGKILL") };
}
