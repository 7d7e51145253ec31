import { mkdir, mkdtemp, readdir, readFile, rm, rmdir, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { cgroupMounts } from "../../../scripts/peers/cluster/cgroup-mounts.ts";
import { onlyChild } from "../../../scripts/peers/cluster/namespaces.ts";
import { systemEnvironment } from "../../../scripts/peers/cluster/obstacle.ts";
import { onPath } from "../../../scripts/peers/find-peer.ts";
import { type Outcome, runToEnd } from "../../../scripts/peers/run-to-end.ts";
import { startServer } from "../../../scripts/peers/server-process.ts";
import { eventually } from "../eventually.ts";

/**
 * What a privileged container looks like from inside: mount, PID, network, IPC and cgroup namespaces of its own, cgroups of version
 * 2, an empty `/tmp`, `/run` and `/var`. The scripts of this repository are in `/mnt/scripts`; `/mnt/bin` is first on PATH.
 */
export type DockerLab = AsyncDisposable & {
  /** On the machine's disk, the same inside and outside. */
  readonly folder: string;
  /** Runs lines of bash inside, to their end; in the cgroup of the lab where that can still be. */
  run(script: string, environment?: Readonly<Record<string, string>>): Promise<Outcome>;
};

const startDeadlineMs = 15_000;
const runDeadlineMs = 60_000;
const { signal } = new AbortController();

/** The first process inside. It enters its cgroup before it gets the namespace of that; who has started it stays outside. */
const firstScript = `
set -e
folder=$1 cgroup=$2 scripts=$3; shift 3
if [ -z "\${INSIDE-}" ]; then
  mount --make-rprivate /
  echo $$ > "$cgroup/cgroup.procs"
  INSIDE=yes exec unshare --cgroup /bin/bash -c "$FIRST" lab "$folder" "$cgroup" "$scripts"
fi
umount --recursive --lazy /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs tmpfs /mnt
mkdir /mnt/scripts /mnt/bin /mnt/etc /mnt/work /mnt/folder
mount --bind "$scripts" /mnt/scripts
mount --bind "$folder" /mnt/folder
mount -t overlay overlay -o lowerdir=/etc,upperdir=/mnt/etc,workdir=/mnt/work /etc
for place in /run /var /tmp; do mount -t tmpfs -o mode=1777 tmpfs "$place"; done
mkdir -p /var/lib /var/tmp "$folder"
ln -s /run /var/run
mount --bind /mnt/folder "$folder"
ip link set lo up
echo inside
while :; do sleep 86400 & wait "$!"; done
`;

/** Its own cgroup where that can be: not once controllers are enabled for those below. */
const enterScript = `
cgroup=/sys/fs/cgroup
[ ! -d "$cgroup/init" ] || cgroup=$cgroup/init
echo $$ 2>/dev/null > "$cgroup/cgroup.procs"
cd /
exec /bin/bash -c "$1"
`;

/** Why there can be none here; undefined where there can. */
export async function labObstacle(): Promise<string | undefined> {
  const [mount] = (await cgroupMounts()).v2;
  if (mount === undefined) return "cgroups of version 2 are not mounted";
  if ((await words(path.join(mount, "cgroup.controllers"))).length === 0)
    return "cgroups of version 2 have no controller on this machine: version 1 has them all";
  return undefined;
}

/** Makes one; `programs` are folders for its PATH. It ends with this process at the latest. */
export async function startDockerLab(programs: readonly string[]): Promise<DockerLab> {
  const [mount = ""] = (await cgroupMounts()).v2;
  const folder = await mkdtemp(path.join(tmpdir(), "docker-lab-"));
  const cgroup = path.join(mount, path.basename(folder));
  const environment = systemEnvironment({ PATH: ["/mnt/bin", ...programs].join(":"), HOME: "/root" });
  await mkdir(cgroup);
  const giveBack = await enableAll(mount);
  const namespaces = ["--mount", "--net", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc"];
  const scripts = path.join(import.meta.dirname, "../../../scripts");
  const outer = await startServer({
    name: "the namespaces of a Docker",
    program: (await onPath("unshare", systemEnvironment(process.env))) ?? "unshare",
    args: [...namespaces, "/bin/bash", "-c", firstScript, "lab", folder, cgroup, scripts],
    folder,
    environment: { ...environment, FIRST: firstScript },
    logFile: path.join(folder, "namespaces.log"),
  });
  const end = async () => {
    await outer.stop(0);
    await eventually("its cgroups are gone", () => removeCgroup(cgroup), 20_000, 50);
    await giveBack();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await outer.line(/^inside$/, startDeadlineMs, signal);
    const pid = await onlyChild(outer.pid);
    const into = ["--target", String(pid), "--mount", "--net", "--ipc", "--pid", "--cgroup", "--"];
    return {
      folder,
      run: async (script, more = {}) =>
        await runToEnd(
          {
            program: "/usr/bin/nsenter",
            args: [...into, "/bin/bash", "-c", enterScript, "enter", script],
            environment: { ...environment, ...more },
            deadline: runDeadlineMs,
          },
          signal,
        ),
      [Symbol.asyncDispose]: end,
    };
  } catch (error) {
    await end();
    throw error;
  }
}

/** What the machine has not enabled below its root is enabled as long as the lab is there, or another one still needs it. */
async function enableAll(mount: string): Promise<() => Promise<void>> {
  const file = path.join(mount, "cgroup.subtree_control");
  const before = await words(file);
  const added = (await words(path.join(mount, "cgroup.controllers"))).filter(
    (name) => !before.includes(name),
  );
  const write = (sign: string) => writeFile(file, added.map((name) => `${sign}${name}`).join(" "));
  if (added.length > 0) await write("+");
  return async () => {
    if (added.length > 0) await write("-").catch(() => undefined);
  };
}

async function words(file: string): Promise<readonly string[]> {
  return (await readFile(file, "utf8")).split(/\s+/).filter((word) => word !== "");
}

/** Whether it is gone, with all that Docker made in it. A process that is about to end still holds it. */
async function removeCgroup(folder: string): Promise<boolean> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  for (const entry of entries) if (entry.isDirectory()) await removeCgroup(path.join(folder, entry.name));
  return await rmdir(folder).then(
    () => true,
    (error: unknown) => error instanceof Error && "code" in error && error.code === "ENOENT",
  );
}
