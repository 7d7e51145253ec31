import { readFile } from "node:fs/promises";

/** What Linux tells of a process or a thread, proc_pid_stat(5). */
export type ProcessStat = {
  /** A letter; `X` where it is gone. */
  readonly state: string;
  /** NaN where it is gone. */
  readonly group: number;
};

/** Reads a `stat` below `/proc`. */
export async function readProcessStat(file: string): Promise<ProcessStat> {
  const text = await readFile(file, "utf8").catch(() => "");
  // The name in parentheses may hold blanks.
  const [state = "", , group] = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return { state: state === "" ? "X" : state, group: Number(group) };
}
