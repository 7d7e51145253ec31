import { readdir, readFile } from "node:fs/promises";

/** Processes of this machine that belong to a Pod, as their cgroups say; in the Pod they have other numbers. */
export async function processesOf(podUid: string): Promise<readonly number[]> {
  const pids: number[] = [];
  for (const entry of await readdir("/proc")) {
    if (!/^\d+$/.test(entry)) continue;
    // One that has just ended is none.
    const cgroups = await readFile(`/proc/${entry}/cgroup`, "utf8").catch(() => "");
    if (cgroups.includes(`pod${podUid}/`)) pids.push(Number(entry));
  }
  return pids;
}

/** As a power failure of their node would. */
export async function killPod(podUid: string): Promise<void> {
  for (const pid of await processesOf(podUid)) signalProcess(pid, "SIGKILL");
}

/** One that has ended meanwhile is no error: the end of a container's first process is that of the others. */
export function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
