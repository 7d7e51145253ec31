import { spawn } from "node:child_process";

/** Signals every process of a group; one that is gone already is no error. */
export function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/** Somebody who kills a process group as soon as this process is gone, however it ended. */
export type Watch = {
  /** The group to kill. */
  begin(pid: number): void;
  /** Ends the watch; call it when the group has ended, and when it never began. */
  end(): void;
};

/**
 * A child with a group of its own hears neither Ctrl-C nor the end of its parent: a shell waits for the end of a pipe that only we
 * hold open. Start it before the child, so that there is no moment without it.
 */
export function startWatch(): Watch {
  const script = 'read -r group; while read -r _; do :; done; kill -s KILL -- "-$group"';
  const watch = spawn("sh", ["-c", script], { stdio: ["pipe", "ignore", "ignore"], detached: true });
  watch.on("error", () => {
    // No shell, no watch: the child itself still runs.
  });
  watch.stdin.on("error", () => {
    // The watch was ended by somebody else.
  });
  watch.unref();
  return {
    begin: (pid) => void watch.stdin.write(`${pid}\n`),
    end: () => void watch.kill("SIGKILL"),
  };
}
