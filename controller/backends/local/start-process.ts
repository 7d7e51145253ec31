import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, fchownSync, openSync } from "node:fs";
import type { ProcessInfo, ProcessTable } from "./process-table.ts";

export type ProcessStart = {
  readonly program: string;
  readonly args: readonly string[];
  readonly folder: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Gets stdout and stderr. */
  readonly log: string;
  /** Its uid and gid; null: ours. */
  readonly uid: number | null;
};

/**
 * Starts a process that does not notice our end: a session of its own, its output in a file, its input closed.
 * Rejects with the system's error if it cannot be started. `onExit` hears "exited with code 1" or "killed by
 * SIGKILL" as long as we live.
 */
export async function startProcess(
  start: ProcessStart,
  table: ProcessTable,
  onExit: (how: string) => void,
): Promise<ProcessInfo> {
  const log = openSync(start.log, "a", 0o640);
  try {
    if (start.uid !== null) fchownSync(log, start.uid, start.uid);
    const child = spawn(start.program, start.args, {
      cwd: start.folder,
      env: start.environment,
      stdio: ["ignore", log, log],
      detached: true,
      ...(start.uid === null ? {} : { uid: start.uid, gid: start.uid }),
    });
    // In the same turn: until Node collects its exit code, a process that ended at once still has its entry.
    const info = child.pid === undefined ? undefined : table.find(child.pid);
    child.once("exit", (code, signal) => {
      onExit(signal === null ? `exited with code ${code}` : `killed by ${signal}`);
    });
    child.unref();
    await spawned(child);
    if (info === undefined) throw new Error(`/proc does not show process ${child.pid}`);
    return info;
  } finally {
    closeSync(log);
  }
}

function spawned(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    child.once("spawn", resolve);
    child.once("error", reject);
  });
}
