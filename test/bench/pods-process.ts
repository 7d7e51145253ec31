import { readdir, readFile } from "node:fs/promises";
import { uptime } from "node:os";
import { parseStat } from "../../controller/bootstrap/process-list.ts";
import { systemClock } from "../../controller/platform/clock.ts";

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

/** When the first process of a container of this machine's began, to 10 ms, which is how Linux counts it; NaN where none runs. */
export async function containerBegin(id: string): Promise<number> {
  const boot = systemClock.now() - uptime() * 1000;
  const begins: number[] = [];
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    // One that has just ended is none.
    const cgroups = await readFile(`/proc/${pid}/cgroup`, "utf8").catch(() => "");
    if (id === "" || !cgroups.includes(id)) continue;
    const found = parseStat(Number(pid), await readFile(`/proc/${pid}/stat`, "utf8").catch(() => ""));
    if (found !== undefined) begins.push(boot + (found.startTime / ticksPerSecond) * 1000);
  }
  return begins.length === 0 ? NaN : Math.min(...begins);
}
