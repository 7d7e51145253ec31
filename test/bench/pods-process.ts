import { readFile } from "node:fs/promises";

/** A process at one moment. */
export type ProcessFigures = { readonly rssMb: number; readonly cpuSeconds: number };

/** Linux counts a process's time in these, whatever the machine. */
const ticksPerSecond = 100;

export async function processFigures(pid: number): Promise<ProcessFigures> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  const kib = Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]);
  // Behind the name, which may have spaces; proc(5): utime is field 14.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [user, system] = [Number(fields[11]), Number(fields[12])];
  return { rssMb: (kib * 1024) / 1e6, cpuSeconds: (user + system) / ticksPerSecond };
}
