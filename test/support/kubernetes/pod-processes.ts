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
  for (const pid of await processesOf(podUid)) process.kill(pid, "SIGKILL");
}
