export type ProcessStat = {
  readonly group: number;
  readonly session: number;
  readonly startTime: number;
  readonly zombie: boolean;
};

/** Reads /proc/<pid>/stat, see proc_pid_stat(5). The name in it may hold blanks and brackets: fields count from the last one. */
export function parseStat(text: string): ProcessStat {
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const number = (field: number) => {
    const value = Number(fields[field - 3]);
    if (!Number.isSafeInteger(value)) throw new Error(`field ${field} of a process's stat is no number`);
    return value;
  };
  const state = fields[0] ?? "";
  return { group: number(5), session: number(6), startTime: number(22), zombie: /^[ZXx]$/.test(state) };
}

/** The uids (real, effective, saved, file system) in /proc/<pid>/status. */
export function parseUids(text: string): readonly number[] {
  const line = /^Uid:\s*([0-9\s]+)$/m.exec(text)?.[1];
  if (line === undefined) throw new Error("a process's status has no line Uid");
  return line.trim().split(/\s+/).map(Number);
}
