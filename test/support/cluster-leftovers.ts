import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { cgroupMounts } from "../../scripts/peers/cluster/cgroup-mounts.ts";
import { processesMentioning } from "./find-processes.ts";

/** What a cluster of that name, in that folder, has on this machine: nothing once it has ended. */
export async function clusterLeftovers(name: string, folder: string): Promise<readonly string[]> {
  const { v1, v2 } = await cgroupMounts();
  const cgroups = [...new Set([...v1.values(), ...v2])].map((mount) => path.join(mount, name));
  const mounts = (await readFile("/proc/self/mountinfo", "utf8")).split("\n");
  return [
    // A process in a Pod would keep its cgroup.
    ...cgroups.filter((cgroup) => existsSync(cgroup)),
    ...[`/sys/class/net/${name}`].filter((link) => existsSync(link)),
    ...mounts.filter((line) => line.includes(folder)),
    ...processesMentioning(folder).map(({ pid, command }) => `${pid} ${command.replaceAll("\0", " ")}`),
  ];
}
