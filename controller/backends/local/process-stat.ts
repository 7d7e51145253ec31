export type ProcessStat = {
  readonly group: number;
  readonly session: number;
  readonly startTime: number;
  readonly zombie: boolean;
};

/** Reads /proc/<pid>/stat, see proc_pid_stat(5). The name in it may hold blanks and brackets: fields count from the last one. */
export function parseStat(text: string): ProcessStat {
  const fields = fieldsOf(text);
  const number = (field: number) => {
    const value = Number(fields[field - 3]);
    if (!Number.isSafeInteger(value)) throw new Error(`field ${field} of a process's stat is no number`);
    return value;
  };
  const state = fields[0] ?? "";
  return { group: number(5), session: number(6), startTime: number(22), zombie: /^[ZXx]$/.test(state) };
}

/**
 * Whether an environment that was read as empty is so, by the process's stat: it runs no program (part of the kernel, or it has
 * ended), or its program was started with none. Otherwise execve(2) is at work, which takes the old environment away some time
 * before the new one is there.
 */
export function hasNoEnvironment(text: string): boolean {
  // Compared as text: addresses are larger than numbers can tell apart.
  const fields = fieldsOf(text);
  const [memory, start, end] = [fields[23 - 3], fields[50 - 3], fields[51 - 3]];
  return memory === "0" || (end !== "0" && start === end);
}

/** From field 3 on. */
function fieldsOf(text: string): readonly string[] {
  return text
    .slice(text.lastIndexOf(")") + 2)
    .trimEnd()
    .split(" ");
}

/** The uids (real, effective, saved, file system) in /proc/<pid>/status. */
export function parseUids(text: string): readonly number[] {
  const line = /^Uid:\s*([0-9\s]+)$/m.exec(text)?.[1];
  if (line === undefined) throw new Error("a process's status has no line Uid");
  return line.trim().split(/\s+/).map(Number);
}
