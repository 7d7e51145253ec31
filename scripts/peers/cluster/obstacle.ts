import { isProgram, onPath } from "../find-peer.ts";
import { cgroupMounts, neededControllers } from "./cgroup-mounts.ts";

/** Debian's packages with what the cluster runs on; `.ci/run` installs them. */
export const clusterPackages: Readonly<Record<string, readonly string[]>> = {
  containerd: ["containerd", "ctr"],
  runc: ["runc"],
  iptables: ["iptables"],
  iproute2: ["ip"],
  "util-linux": ["unshare", "nsenter"],
  mmdebstrap: ["mmdebstrap"],
  "containernetworking-plugins": ["/usr/lib/cni/bridge", "/usr/lib/cni/host-local", "/usr/lib/cni/portmap"],
};

/**
 * Why no cluster can run on this machine, with what to do about it; undefined where one can. Namespaces, mounts and
 * cgroups are for root only, and this cluster knows cgroups of version 1 only.
 */
export async function clusterObstacle(environment: NodeJS.ProcessEnv): Promise<string | undefined> {
  if (process.platform !== "linux") return `a cluster needs Linux, this is ${process.platform}`;
  if (process.geteuid?.() !== 0) return "a cluster needs root, for its namespaces and mounts";
  const { v1 } = await cgroupMounts();
  const absent = neededControllers.filter((controller) => !v1.has(controller));
  if (absent.length > 0)
    return `a cluster needs cgroups of version 1, and there are none for ${absent.join(", ")}`;
  const packages: string[] = [];
  for (const [name, programs] of Object.entries(clusterPackages)) {
    const found = await Promise.all(programs.map(async (program) => await findProgram(program, environment)));
    if (found.includes(undefined)) packages.push(name);
  }
  if (packages.length === 0) return undefined;
  return `a cluster needs programs of Debian: apt-get install --no-install-recommends ${packages.join(" ")}`;
}

/** The absolute path of a program of Debian's. Rejects with what is missing. */
export async function debianProgram(name: string, environment: NodeJS.ProcessEnv): Promise<string> {
  const found = await findProgram(name, environment);
  if (found === undefined) throw new Error(`${name} is not installed; see npm run peers -- kubernetes`);
  return found;
}

async function findProgram(name: string, environment: NodeJS.ProcessEnv): Promise<string | undefined> {
  if (name.startsWith("/")) return (await isProgram(name)) ? name : undefined;
  return await onPath(name, systemEnvironment(environment));
}

/** With the folders of root's programs on PATH, which a service's own often lacks. */
export function systemEnvironment(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return { ...environment, PATH: `${environment["PATH"] ?? ""}:/usr/sbin:/usr/bin:/sbin:/bin` };
}
