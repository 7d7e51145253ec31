import { spawn } from "node:child_process";
import { once } from "node:events";
import { networkInterfaces } from "node:os";
import { createInterface } from "node:readline";
import { within } from "../within.ts";
import type { CgroupMounts } from "./cgroup-mounts.ts";
import { systemEnvironment } from "./obstacle.ts";

/** What a cluster has of the machine for itself: names and addresses that no other one uses at the same time. */
export type Slot = {
  /** Of its cgroup, in every hierarchy, and of its network link on our side. */
  readonly name: string;
  /** Our side of the link; Pods reach us here. */
  readonly hostIp: string;
  /** The node's side. */
  readonly nodeIp: string;
  /** Gives it back; rejects when something of it is left after half a minute. A second call is no error. */
  release(): Promise<void>;
};

const takeDeadlineMs = 60_000;
const slots = 250;

/**
 * Takes the first name that is free and makes its cgroups; one of cpuset takes processes only once it has been told
 * its processors. Says the number, waits for the end of its input, which is the end of us, and then removes what bears
 * the name. The processes in the cgroups are ended by others at the same time; a cgroup can be removed once they are
 * gone.
 */
const keeperScript = `
taken=$1 slots=$2; shift 2
trap '' PIPE
number=0
while case "$taken" in *" $number "*) true;; *) ! mkdir "$1/gdr-lab-$number" 2>/dev/null;; esac; do
  number=$((number + 1))
  [ "$number" -lt "$slots" ] || exit 1
done
name=gdr-lab-$number
for hierarchy in "$@"; do
  mkdir -p "$hierarchy/$name"
  for file in cpuset.cpus cpuset.mems; do
    [ -f "$hierarchy/$file" ] && cat "$hierarchy/$file" > "$hierarchy/$name/$file"
  done
done
echo "$number"
while read -r _; do :; done
for _ in $(seq 300); do
  ip link delete "$name" 2>/dev/null
  left=
  for hierarchy in "$@"; do
    [ -d "$hierarchy/$name" ] || continue
    find "$hierarchy/$name" -depth -type d -exec rmdir {} + 2>/dev/null
    [ -d "$hierarchy/$name" ] && left=yes
  done
  [ -z "$left" ] && ! [ -e "/sys/class/net/$name" ] && exit 0
  sleep 0.1
done
exit 1
`;

/**
 * Takes a slot; whoever is killed gives it back as well. Rejects when all are taken, or when this process may not
 * make cgroups.
 */
export async function takeSlot(
  mounts: CgroupMounts,
  environment: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<Slot> {
  const hierarchies = [...new Set(mounts.v1.values()), ...mounts.v2];
  const keeper = spawn(
    "/bin/sh",
    ["-c", keeperScript, "slot-keeper", takenNumbers(), String(slots), ...hierarchies],
    { env: systemEnvironment(environment), stdio: ["pipe", "pipe", "ignore"], detached: true },
  );
  keeper.unref();
  const ended = once(keeper, "exit");
  const end = async (): Promise<number | null> => {
    keeper.stdin.end();
    keeper.ref();
    const [code] = (await ended) as [number | null];
    return code;
  };
  const firstLine = async (inner: AbortSignal): Promise<string> => {
    const lines = createInterface({ input: keeper.stdout, signal: inner });
    for await (const line of lines) return line;
    // An abort ends the lines as well.
    inner.throwIfAborted();
    throw new Error(`no cgroup can be made in ${hierarchies[0] ?? "any hierarchy"}`);
  };
  try {
    const number = Number(await within(takeDeadlineMs, "taking names for the cluster", firstLine, signal));
    const name = `gdr-lab-${number}`;
    const address = (last: number) => `10.251.${number}.${last}`;
    const release = async () => {
      if ((await end()) !== 0) throw new Error(`cgroups or a link called ${name} cannot be removed`);
    };
    return { name, hostIp: address(1), nodeIp: address(2), release };
  } catch (error) {
    await end();
    throw error;
  }
}

/** Numbers of networks that this machine has an address in, between blanks. */
function takenNumbers(): string {
  const addresses = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  const numbers = addresses.map(({ address }) => /^10\.251\.(\d+)\./.exec(address)?.[1] ?? "");
  return ` ${numbers.join(" ")} `;
}
