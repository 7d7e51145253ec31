import { spawn } from "node:child_process";

/** Signals every process of a group; one that is gone already is no error. */
export function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/**
 * Kills the group as soon as this process is gone, however it ended. A child with a group of its own hears neither
 * Ctrl-C nor the end of its parent: a shell waits for the end of a pipe that only we hold open.
 * The returned function ends the watch; call it when the group has ended.
 */
export function killGroupWithUs(pid: number): () => void {
  const script = 'while read -r _; do :; done; kill -KILL -- "-$1"';
  const watch = spawn("sh", ["-c", script, "sh", String(pid)], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  watch.on("error", () => {
    // No shell, no watch: the peer itself still runs.
  });
  watch.stdin.on("error", () => {
    // The watch was ended by somebody else.
  });
  watch.unref();
  return () => watch.kill("SIGKILL");
}
