import type { FailureReason } from "../../assignment/failure-reasons.ts";
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
  if (file.ended !== null) return ended(file.ended, file.cause);
  if (file.process === null) {
    if (findMain(folder, file, table) !== undefined) return { phase: "running" };
    if (now - file.createdAt < startMs) return { phase: "starting" };
    return ended("its process was never started", "start_failed");
  }
  if (mainLives(file, table) || processesOf(folder, file, table).length > 0) return { phase: "running" };
  if (file.killedFor !== null) return ended(file.killedFor, file.cause);
  if (exit !== undefined) return ended(exit, exit.startsWith("killed by") ? "killed" : undefined);
  return file.process.bootId === table.bootId
    ? ended("its process is gone", "vanished")
    : ended("its machine was started anew", "node_lost");
}

function ended(reason: string, cause: FailureReason | undefined): ExecutorState {
  return { phase: "ended", reason, ...(cause === undefined ? {} : { cause }) };
}
