import path from "node:path";
import type { Clock } from "../../platform/clock.ts";
import { BackendError } from "../backend.ts";
import type { ExecutorFile } from "./executor-file.ts";
import { anyUndecided, mainLives, processesOf } from "./executor-processes.ts";
import type { ProcessTable } from "./process-table.ts";

/** How long SIGKILL may take to show: longer only for what hangs in the kernel. */
const killDeadlineMs = 10_000;

/**
 * Ends everything of an executor: SIGTERM to the bootstrap's group, after the grace (as soon as the bootstrap has
 * ended) SIGKILL to all that is left, again and again until nothing is. Rejects with a retryable BackendError if
 * something stays.
 */
export async function endProcesses(
  folder: string,
  file: ExecutorFile,
  tools: { readonly table: ProcessTable; readonly clock: Clock; readonly graceMs: number },
  signal: AbortSignal,
): Promise<void> {
  const { table, clock } = tools;
  if (file.process !== null && mainLives(file, table)) {
    table.signal(-file.process.pid, "SIGTERM");
    await settled(() => !mainLives(file, table), tools.graceMs, clock, signal);
  }
  const left = () => processesOf(folder, file, table);
  const gone = await settled(
    () => {
      const processes = left();
      for (const { pid } of processes) table.signal(pid, "SIGKILL");
      return processes.length === 0 && !anyUndecided(file, table);
    },
    killDeadlineMs,
    clock,
    signal,
  );
  if (gone) return;
  const [first, ...others] = left();
  if (first === undefined) return;
  const count = others.length === 0 ? "" : ` and ${others.length} more`;
  throw new BackendError("retryable", `process ${first.pid}${count} of ${path.basename(folder)} did not end`);
}

/** Looks until `done`, ever less often; false once the time is over. */
async function settled(
  done: () => boolean,
  withinMs: number,
  clock: Clock,
  signal: AbortSignal,
): Promise<boolean> {
  const end = clock.now() + withinMs;
  for (let pause = 10; ; pause = Math.min(200, pause * 2)) {
    signal.throwIfAborted();
    if (done()) return true;
    const left = end - clock.now();
    if (left <= 0) return false;
    await clock.sleep(Math.min(pause, left), signal);
  }
}
