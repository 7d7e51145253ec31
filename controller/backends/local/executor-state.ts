import type { ExecutorState } from "../backend.ts";
import type { ExecutorFile } from "./executor-file.ts";
import { findMain, mainLives, processesOf } from "./executor-processes.ts";
import type { ProcessTable } from "./process-table.ts";

/** A start takes milliseconds; a file without a process that is older was left by a controller that died before it. */
export const startMs = 10_000;

/** `exit` is how its process ended, if it was our child. Leftovers of the job count: ended means that nothing runs. */
export function executorState(
  folder: string,
  file: ExecutorFile,
  seen: { readonly table: ProcessTable; readonly exit: string | undefined; readonly now: number },
): ExecutorState {
  const { table, exit, now } = seen;
  if (file.ended !== null) return { phase: "ended", reason: file.ended };
  if (file.process === null) {
    if (findMain(folder, file, table) !== undefined) return { phase: "running" };
    if (now - file.createdAt < startMs) return { phase: "starting" };
    return { phase: "ended", reason: "its process was never started" };
  }
  if (mainLives(file, table) || processesOf(folder, file, table).length > 0) return { phase: "running" };
  return { phase: "ended", reason: file.killedFor ?? exit ?? "its process is gone" };
}
