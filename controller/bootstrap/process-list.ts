import { readdirSync, readFileSync } from "node:fs";

/** A process of this machine, as far as we look at it. */
export type ListedProcess = {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  /** A pid comes again, with another start. */
  readonly startTime: number;
};

/** The processes that have not ended; none where there is no /proc. Synchronous: a look is one moment, not several. */
export function listProcesses(): readonly ListedProcess[] {
  return namesIn("/proc").flatMap((name) => {
    const stat = /^[0-9]+$/.test(name) ? read(`/proc/${name}/stat`) : undefined;
    const process = stat === undefined ? undefined : parseStat(Number(name), stat);
    return process === undefined ? [] : [process];
  });
}

/**
 * Reads /proc/<pid>/stat, see proc_pid_stat(5). The name in it may hold blanks and brackets: fields count from the
 * last one. Undefined for one that has ended and only waits for its parent to notice.
 */
export function parseStat(pid: number, text: string): ListedProcess | undefined {
  const [state, parent, group, ...others] = text.slice(text.lastIndexOf(")") + 2).split(" ");
  if (state === undefined || /^[ZXx]$/.test(state)) return undefined;
  return { pid, parent: Number(parent), group: Number(group), startTime: Number(others[16]) };
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function read(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    // It ended between two looks, or it is somebody else's.
    return undefined;
  }
}
