import { mkdir } from "node:fs/promises";
import path from "node:path";
import { onlyChild } from "../../../scripts/peers/cluster/namespaces.ts";
import { type ServerProcess, startServer } from "../../../scripts/peers/server-process.ts";
import type { SandboxTask } from "./sandbox-resources.ts";
import type { PlayedVm, VmHost } from "./vm-host.ts";

export type ProcessVmOptions = {
  /** Gets a folder for each VM, with its logs; other users must be able to pass through. */
  readonly folder: string;
  readonly image: VmImage;
};

/** What the VMs' image brings, beside what this machine has. */
export type VmImage = {
  /** Folders of programs, first on PATH. */
  readonly programs: readonly string[];
  /** A folder that is laid over `/etc`. */
  readonly etc?: string;
};

/** A VM with what a test may look at. */
export type ProcessVm = PlayedVm & {
  /** Of its first process, as seen from outside. */
  readonly pid: number;
  /** What its tasks printed, in files of their own. */
  readonly folder: string;
};

/** What the VMs' image says of where its programs are. */
const systemPath = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
const startMs = 60_000;

/**
 * The first process of a VM, which ends it on SIGTERM: so does `kill 1` inside, by root. What it mounts is its own:
 * `/run`, `/etc` as the image has it, a home for the job's user, and OpenSandbox's `bootstrap.sh`, which the pool's image has to have; this one does nothing beside its task.
 */
const firstScript = `
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=755 tmpfs /home
install -d -m 700 -o 2000 -g 2000 /home/runner
mount -t tmpfs -o mode=755 tmpfs "$1/opt"
mkdir "$1/opt/upper" "$1/opt/work"
mount -t overlay overlay -o "lowerdir=/opt,upperdir=$1/opt/upper,workdir=$1/opt/work" /opt
[ -z "$2" ] || mount -t overlay overlay -o "lowerdir=$2:/etc" /etc
mkdir -p /opt/opensandbox
printf '#!/bin/sh\\nexec "$@"\\n' > /opt/opensandbox/bootstrap.sh
chmod 755 /opt/opensandbox/bootstrap.sh
trap 'exit 0' TERM
echo started
while :; do sleep 86400 & wait "$!"; done
`;

/** Why VMs cannot be played by processes here; undefined where they can. */
export function processVmObstacle(): string | undefined {
  if (process.platform !== "linux") return `VMs of processes need Linux, this is ${process.platform}`;
  return process.geteuid?.() === 0 ? undefined : "VMs of processes need root, for their namespaces";
}

/**
 * VMs that are processes in PID, mount, IPC and host name namespaces of their own, on this machine's network and with its files:
 * as in a VM, what runs in one sees nobody else's processes, and nothing of it outlives it. Needs root.
 */
export function createProcessVms(options: ProcessVmOptions): VmHost<ProcessVm> {
  return {
    start: async (name, changed, signal) => {
      const folder = path.join(options.folder, name);
      const home = path.join(folder, "home");
      await mkdir(path.join(folder, "opt"), { recursive: true, mode: 0o755 });
      await mkdir(home, { mode: 0o755 });
      const environment = {
        PATH: [...options.image.programs, ...systemPath].join(":"),
        HOME: home,
        LANG: "C.UTF-8",
      };
      const own = ["--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc"];
      const machine = await startServer({
        name,
        program: "/usr/bin/unshare",
        args: [...own, "/bin/bash", "-c", firstScript, "vm", folder, options.image.etc ?? ""],
        folder,
        environment,
        logFile: path.join(folder, "machine.log"),
      });
      const tasks: ServerProcess[] = [];
      let isEnded = false;
      const untilEnded = async () => {
        await machine.exited;
        isEnded = true;
        changed();
      };
      void untilEnded();
      const stop = async () => {
        await machine.stop(0);
        // Their processes have ended with it; what began them outside has to notice.
        await Promise.all(tasks.map((task) => task.stop(0)));
      };
      try {
        await machine.line(/^started$/, startMs, signal);
        const pid = await onlyChild(machine.pid);
        const into = ["--target", String(pid), "--mount", "--uts", "--ipc", "--pid", `--wd=${home}`];
        const run = async ({ command, environment: more }: SandboxTask) => {
          const task = await startServer({
            name: `${name}'s task`,
            program: "/usr/bin/nsenter",
            args: [...into, "--", ...command],
            folder: home,
            environment: { ...environment, ...more },
            logFile: path.join(folder, `task-${tasks.length + 1}.log`),
          });
          tasks.push(task);
        };
        return { name, ip: "127.0.0.1", pid, folder, hasEnded: () => isEnded, run, stop };
      } catch (error) {
        await stop();
        throw error;
      }
    },
  };
}
