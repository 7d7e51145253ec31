import { readFile } from "node:fs/promises";

export type CgroupMounts = {
  /** Where each hierarchy of version 1 is mounted, by controller; `systemd` for the one that has none. */
  readonly v1: ReadonlyMap<string, string>;
  /** Where version 2 is mounted beside them. */
  readonly v2: readonly string[];
};

/** The controllers that kubelet and runc want a hierarchy for. */
export const neededControllers = [
  "cpu",
  "cpuacct",
  "cpuset",
  "memory",
  "devices",
  "freezer",
  "blkio",
  "pids",
  "systemd",
] as const;

/** The cgroup file systems that this process sees. */
export async function cgroupMounts(): Promise<CgroupMounts> {
  return parseCgroupMounts(await readFile("/proc/self/mountinfo", "utf8"));
}

/** Reads proc_pid_mountinfo(5): mount point in the fifth field; type and the hierarchy's options behind the dash. */
export function parseCgroupMounts(mountinfo: string): CgroupMounts {
  const v1 = new Map<string, string>();
  const v2: string[] = [];
  for (const line of mountinfo.split("\n")) {
    const [before = "", behind = ""] = line.split(" - ");
    const mountPoint = before.split(" ")[4] ?? "";
    const [type, , options = ""] = behind.split(" ");
    if (type === "cgroup2") v2.push(mountPoint);
    if (type !== "cgroup") continue;
    for (const option of options.split(",")) {
      const name = option.replace(/^name=/, "");
      if (neededControllers.some((controller) => controller === name)) v1.set(name, mountPoint);
    }
  }
  return { v1, v2 };
}
