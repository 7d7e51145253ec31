import type { ExecutorFile, ProcessRef } from "./executor-file.ts";
import type { ProcessInfo, ProcessTable } from "./process-table.ts";

/** Stands in the environment of every process of an executor, with its folder: no two on a machine share one. */
export const executorVariable = "CI_EXECUTOR_FOLDER";

/** Whether the executor's own process, the bootstrap, lives. */
export function mainLives(file: ExecutorFile, table: ProcessTable): boolean {
  if (file.process === null || file.process.bootId !== table.bootId) return false;
  const found = table.find(file.process.pid);
  return found !== undefined && found.startTime === file.process.startTime && !found.zombie;
}

/**
 * Everything of an executor that lives. With a uid of its own, that is what has the uid. Otherwise what is in the
 * bootstrap's process group or session, or has the executor's folder in its environment; what leaves all three
 * is not found.
 */
export function processesOf(folder: string, file: ExecutorFile, table: ProcessTable): readonly ProcessInfo[] {
  const { uid } = file;
  if (uid !== null) return table.living().filter(({ uids }) => uids.includes(uid));
  const leader = leaderOf(file, table);
  return table
    .living()
    .filter(
      ({ pid, group, session }) => group === leader || session === leader || isMarked(pid, folder, table),
    );
}

/**
 * Whether something lives of which cannot be told for a moment whose it is, as it becomes another program: nothing of the
 * executor is left only if this is not so either. Whoever has a uid is always known.
 */
export function anyUndecided(file: ExecutorFile, table: ProcessTable): boolean {
  return file.uid === null && table.living().some(({ pid }) => table.environment(pid) === undefined);
}

/**
 * The bootstrap of an executor whose file does not say it, because the controller died between the start and
 * writing it down: a session leader with the executor's folder in its environment, the oldest of them.
 */
export function findMain(folder: string, file: ExecutorFile, table: ProcessTable): ProcessRef | undefined {
  const [main] = processesOf(folder, file, table)
    .filter(({ pid, session }) => pid === session && isMarked(pid, folder, table))
    .toSorted((a, b) => a.startTime - b.startTime || a.pid - b.pid);
  return main && { pid: main.pid, startTime: main.startTime, bootId: table.bootId };
}

/** The number of the executor's group and session, unless it is somebody else's by now. */
function leaderOf(file: ExecutorFile, table: ProcessTable): number | undefined {
  if (file.process === null || file.process.bootId !== table.bootId) return undefined;
  // A pid is given again only when no process, group and session has it any more.
  const found = table.find(file.process.pid);
  const other = found !== undefined && found.startTime !== file.process.startTime;
  return other ? undefined : file.process.pid;
}

function isMarked(pid: number, folder: string, table: ProcessTable): boolean {
  return table.environment(pid)?.includes(`${executorVariable}=${folder}`) ?? false;
}
