import { mkdir, readdir, rename, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { systemClock } from "../../../controller/platform/clock.ts";
import { peerFolder } from "../cache-folder.ts";
import { systemEnvironment } from "../cluster/obstacle.ts";
import { isProgram, onPath } from "../find-peer.ts";
import { withLock } from "../lock.ts";
import type { PeerSource } from "../peer.ts";
import type { PrepareOptions } from "../prepare-peer.ts";
import { silentReport } from "../report.ts";
import { runCommand } from "../run-command.ts";

/** Debian's Docker, unpacked and not installed: nothing of it is started by itself. */
export type DockerPeer = {
  readonly name: "docker";
  /** Of Debian's package; of one from the environment `unknown`. */
  readonly version: string;
  readonly source: PeerSource;
  /** With `dockerd` and `docker`. containerd and runc are those of the machine. */
  readonly folders: readonly string[];
};

const name = "docker";
const variable = "DOCKER_ENGINE";
const debianPackage = "docker.io";
const lockDeadlineMs = 10 * 60_000;
const deadline = 5 * 60_000;

/**
 * Finds or unpacks dockerd and docker: environment variable, cache, Debian's archive. Rejects with what is missing. The version is the
 * one that apt would install: Debian keeps no older ones.
 */
export async function prepareDocker(options: PrepareOptions, signal: AbortSignal): Promise<DockerPeer> {
  const { report = silentReport, environment = process.env, clock = systemClock } = options;
  const given = environment[variable];
  if (given !== undefined && given !== "") {
    if (!(await isProgram(join(given, "dockerd"))))
      throw new Error(`${variable}=${given} is no folder with dockerd and docker`);
    return { name, version: "unknown", source: "environment", folders: [resolve(given)] };
  }
  const inside = systemEnvironment(environment);
  const version = await candidate(inside, signal);
  const folder = peerFolder(environment, name, version);
  const peer = { name, version, folders: ["sbin", "bin"].map((part) => join(folder, "usr", part)) } as const;
  const isThere = () => isProgram(join(folder, "usr", "sbin", "dockerd"));
  if (await isThere()) return { ...peer, source: "cache" };
  const subject = `${name} ${version}`;
  const onWait = (owner: number) =>
    report.note(subject, `waiting for process ${owner}, which unpacks it (${folder}.lock)`);
  const unpackUnlessThere = async (): Promise<DockerPeer> => {
    if (await isThere()) return { ...peer, source: "cache" };
    const step = report.begin(subject, "unpacking Debian's package");
    try {
      await unpack(folder, version, inside, signal);
      step.end("done");
    } catch (error) {
      step.end("failed");
      throw new Error(`${subject} cannot be had from Debian's archive`, { cause: error });
    }
    return { ...peer, source: "built" };
  };
  return await withLock(
    `${folder}.lock`,
    { clock, deadline: lockDeadlineMs, onWait },
    unpackUnlessThere,
    signal,
  );
}

/** What is missing of the machine for Docker to run as a job's; undefined where nothing is. */
export async function dockerObstacle(environment: NodeJS.ProcessEnv): Promise<string | undefined> {
  if (process.platform !== "linux") return `Docker needs Linux, this is ${process.platform}`;
  if (process.geteuid?.() !== 0) return "a Docker of a job's own needs root, for its namespaces and mounts";
  const needed = {
    containerd: "containerd",
    runc: "runc",
    iptables: "iptables",
    ip: "iproute2",
    unshare: "util-linux",
    "mkfs.ext4": "e2fsprogs",
  };
  const missing: string[] = [];
  for (const [program, owner] of Object.entries(needed))
    if ((await onPath(program, systemEnvironment(environment))) === undefined) missing.push(owner);
  if (missing.length === 0) return undefined;
  return `Docker needs programs of Debian: apt-get install --no-install-recommends ${missing.join(" ")}`;
}

async function candidate(environment: NodeJS.ProcessEnv, signal: AbortSignal): Promise<string> {
  const program = await onPath("apt-cache", environment);
  if (program === undefined) throw new Error(`Docker comes from Debian's archive; set ${variable} elsewhere`);
  const args = ["show", "--no-all-versions", debianPackage];
  const text = await runCommand({ program, args, environment, deadline }, signal);
  const version = /^Version: (\S+)$/m.exec(text)?.[1];
  if (version === undefined) throw new Error(`apt knows no ${debianPackage}; run apt-get update`);
  return version;
}

/** It appears in the folder by a rename. apt checks the package's digest against the signed lists. */
async function unpack(
  folder: string,
  version: string,
  environment: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<void> {
  const making = `${folder}.making`;
  await rm(making, { recursive: true, force: true });
  await mkdir(join(making, "root"), { recursive: true });
  try {
    const run = async (program: string, ...args: readonly string[]) =>
      await runCommand({ program, args, environment, deadline, folder: making }, signal);
    await run("apt-get", "download", "-o", "DPkg::Lock::Timeout=300", `${debianPackage}=${version}`);
    const file = (await readdir(making)).find((entry) => entry.endsWith(".deb"));
    if (file === undefined) throw new Error("apt-get download left no package");
    await run("dpkg", "-x", file, "root");
    await rename(join(making, "root"), folder);
  } finally {
    await rm(making, { recursive: true, force: true });
  }
}
