import { readFile } from "node:fs/promises";

/** A process at one moment. */
export type ProcessFigures = {
  readonly rssMb: number;
  /** The most since its start. */
  readonly peakMb: number;
  readonly cpuSeconds: number;
};

/** Asks a controller what it keeps, see `pods-memory.ts`; the line that answers has this message. */
export const memorySignal = "SIGUSR2";
export const memoryTold = "memory after garbage collection";

/** Linux counts a process's time in these, whatever the machine. */
const ticksPerSecond = 100;

export async function processFigures(pid: number): Promise<ProcessFigures> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  const mb = (field: string) =>
    (Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, "m").exec(status)?.[1]) * 1024) / 1e6;
  // Behind the name, which may have spaces; proc(5): utime is field 14.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [user, system] = [Number(fields[11]), Number(fields[12])];
  return { rssMb: mb("VmRSS"), peakMb: mb("VmHWM"), cpuSeconds: (user + system) / ticksPerSecond };
}
