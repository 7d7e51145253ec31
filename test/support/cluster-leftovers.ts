import { readFile, stat } from "node:fs/promises";
import path from "node:path";
import { cgroupMounts } from "../../scripts/peers/cluster/cgroup-mounts.ts";
import { processesMentioning } from "./find-processes.ts";

/** What a cluster has on this machine, as long as it is there: nothing once it has ended. */
export type ClusterTraces = () => Promise<readonly string[]>;

/**
 * Notes which cgroups and which link a cluster of that name has now; resolves to a question for what is there of it in the folder, and of
 * these. Another cluster may have the name as soon as it is given back, and then has others.
 */
export async function clusterTraces(name: string, folder: string): Promise<ClusterTraces> {
  const { v1, v2 } = await cgroupMounts();
  const cgroups = [...new Set([...v1.values(), ...v2])].map((mount) => path.join(mount, name));
  const link = `/sys/class/net/${name}/ifindex`;
  const known = new Map<string, string | undefined>();
  for (const place of [...cgroups, link]) known.set(place, await markOf(place));
  return async () => {
    const mounts = (await readFile("/proc/self/mountinfo", "utf8")).split("\n");
    const left: string[] = [];
    // A process in a Pod would keep its cgroup.
    for (const [place, mark] of known)
      if (mark !== undefined && (await markOf(place)) === mark) left.push(place);
    return [
      ...left,
      ...mounts.filter((line) => line.includes(folder)),
      ...processesMentioning(folder).map(({ pid, command }) => `${pid} ${command.replaceAll("\0", " ")}`),
    ];
  };
}

/** What no later one of that name has; undefined if there is none. */
async function markOf(place: string): Promise<string | undefined> {
  if (place.endsWith("/ifindex")) return await readFile(place, "utf8").catch(() => undefined);
  return await stat(place).then(
    ({ ino }) => String(ino),
    () => undefined,
  );
}
