import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "../../../controller/platform/clock.ts";
import { readProcessStat } from "../process-stat.ts";
import { type Command, runCommand } from "../run-command.ts";
import { startServer } from "../server-process.ts";
import { within } from "../within.ts";
import { debianProgram, systemEnvironment } from "./obstacle.ts";

/** Mount, network, name, IPC and PID namespaces of their own: what runs, is mounted or is routed in them ends with them. */
export type Namespaces = {
  /** Of the first process, as seen from outside. */
  readonly pid: number;
  /** How to start a program inside; paths are the same on both sides, but for `/var`, `/etc`, `/opt` and `/run`. */
  enter(
    program: string,
    args: readonly string[],
  ): { readonly program: string; readonly args: readonly string[] };
  /** Runs a program of Debian's inside, to its end. */
  run(
    program: string,
    args: readonly string[],
    signal: AbortSignal,
    more?: Partial<Command>,
  ): Promise<string>;
  /** Ends all that runs inside; resolves when nothing of it is left. A second call is no error. */
  stop(): Promise<void>;
};

export type NamespaceOptions = {
  /** Takes the files that are written below `/var`, `/etc` and `/opt`; not on an overlay, nor below these. */
  readonly folder: string;
  readonly hostName: string;
  /** As in `/etc/hosts`, by name. */
  readonly hosts: Readonly<Record<string, string>>;
  readonly environment: NodeJS.ProcessEnv;
};

/**
 * What the kubelet wants the kernel's switches to say, which are the whole machine's: a file is put over each that
 * says so, and the kubelet writes nothing.
 */
const switches: Readonly<Record<string, number>> = {
  "vm/overcommit_memory": 1,
  "vm/panic_on_oom": 0,
  "kernel/panic": 10,
  "kernel/panic_on_oops": 1,
  "kernel/keys/root_maxkeys": 1_000_000,
  "kernel/keys/root_maxbytes": 25_000_000,
};

/**
 * The first process inside, which takes in orphans. The mounts are shared among themselves, as the kubelet needs
 * them, and with nobody outside; nothing of them has to reach a disk. A name server that refuses at once: there is
 * none.
 */
const firstScript = `
set -e
folder=$1 name=$2 hosts=$3; shift 3
mount --make-rprivate / && mount --make-rshared /
hostname "$name"
mount -t tmpfs -o mode=755 tmpfs /run && mkdir /run/lock
for top in var etc opt; do
  mkdir -p "$folder/$top/upper" "$folder/$top/work"
  mount -t overlay overlay -o "lowerdir=/$top,upperdir=$folder/$top/upper,workdir=$folder/$top/work,volatile" "/$top"
done
mkdir -p "$folder/switches"
for pair; do
  file=$folder/switches/$(echo "\${pair%=*}" | tr / _)
  echo "\${pair#*=}" > "$file"
  mount --bind "$file" "/proc/sys/\${pair%=*}"
done
rm -f /etc/resolv.conf
echo nameserver 127.0.0.1 > /etc/resolv.conf
printf '%s' "$hosts" > /etc/hosts
echo inside
while :; do sleep 86400 & wait "$!"; done
`;

const startDeadlineMs = 60_000;
const endDeadlineMs = 60_000;
const lookMs = 10;
const commandDeadlineMs = 60_000;

/** Makes the namespaces. Rejects with what the first process said last when that ends before it is ready. */
export async function createNamespaces(options: NamespaceOptions, signal: AbortSignal): Promise<Namespaces> {
  const { folder } = options;
  const environment = systemEnvironment(options.environment);
  const nsenter = await debianProgram("nsenter", environment);
  const hosts = Object.entries({ localhost: "127.0.0.1", ...options.hosts });
  const own = ["--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc"];
  const first = [
    "/bin/bash",
    "-c",
    firstScript,
    "cluster",
    folder,
    options.hostName,
    hosts.map(([name, address]) => `${address} ${name}\n`).join(""),
    ...Object.entries(switches).map(([file, value]) => `${file}=${value}`),
  ];
  const outer = await startServer({
    name: "the cluster's namespaces",
    program: await debianProgram("unshare", environment),
    args: [...own, ...first],
    folder,
    environment,
    logFile: join(folder, "namespaces.log"),
  });
  try {
    await outer.line(/^inside$/, startDeadlineMs, signal);
    const pid = await onlyChild(outer.pid);
    let stopped: Promise<void> | undefined;
    const stop = async () => {
      await outer.stop(0);
      await untilEnded(pid);
    };
    const enter: Namespaces["enter"] = (program, args) => {
      const into = ["--target", String(pid), "--mount", "--net", "--uts", "--ipc", "--pid"];
      return { program: nsenter, args: [...into, "--", program, ...args] };
    };
    return {
      pid,
      enter,
      run: async (program, args, abort, more) => {
        const command = enter(await debianProgram(program, environment), args);
        try {
          return await runCommand({ ...command, environment, deadline: commandDeadlineMs, ...more }, abort);
        } catch (error) {
          abort.throwIfAborted();
          throw new Error(`${program} in the cluster's namespaces`, { cause: error });
        }
      },
      stop: () => (stopped ??= stop()),
    };
  } catch (error) {
    await outer.stop(0);
    throw error;
  }
}

/**
 * The first process of a namespace of pids, which is killed, has ended only when all others in it have; who started it does not wait
 * for that.
 */
async function untilEnded(pid: number): Promise<void> {
  const look = async (signal: AbortSignal) => {
    // Gone, or nobody has asked for its exit code.
    const ended = async () => ["X", "Z"].includes((await readProcessStat(`/proc/${pid}/stat`)).state);
    while (!(await ended())) await systemClock.sleep(lookMs, signal);
  };
  const what = `the end of process ${pid} with all in its namespace`;
  await within(endDeadlineMs, what, look, new AbortController().signal);
}

/** The pid of the one process that another has started. */
export async function onlyChild(parent: number): Promise<number> {
  for (const name of await readdir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const stat = await readFile(`/proc/${name}/stat`, "utf8").catch(() => "");
    // The name in parentheses may hold blanks; the parent is the second word after it.
    if (Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]) === parent) return Number(name);
  }
  throw new Error("the first process of the cluster's namespaces has ended");
}
