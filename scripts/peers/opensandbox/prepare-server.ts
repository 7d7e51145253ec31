import { createHash } from "node:crypto";
import { access, readFile } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "../../../controller/platform/clock.ts";
import { peerFolder } from "../cache-folder.ts";
import { isProgram, onPath } from "../find-peer.ts";
import { withLock } from "../lock.ts";
import type { PeerSource } from "../peer.ts";
import type { PrepareOptions } from "../prepare-peer.ts";
import { silentReport } from "../report.ts";
import { findPython, type Python } from "./find-python.ts";
import { installServer } from "./install-server.ts";

/** An opensandbox-server that can be started. */
export type OpenSandboxPeer = {
  readonly name: "opensandbox-server";
  /** Of one from the environment `unknown`. */
  readonly version: string;
  readonly source: PeerSource;
  readonly program: string;
  /** Before its own. */
  readonly args: readonly string[];
  readonly environment: NodeJS.ProcessEnv;
};

const name = "opensandbox-server";
const variable = "OPENSANDBOX_SERVER_BINARY";
const lockDeadlineMs = 30 * 60_000;

/**
 * Finds or installs the server: environment variable, cache, pip. Rejects with what to install or to set. Concurrent calls, in
 * this process or in others, share one install. One on PATH is never taken: it does not tell its version.
 */
export async function prepareOpenSandbox(
  options: PrepareOptions,
  signal: AbortSignal,
): Promise<OpenSandboxPeer> {
  const { report = silentReport, environment = process.env, clock = systemClock } = options;
  const given = await fromEnvironment(environment);
  if (given !== undefined) return given;
  const pin = await readRequirements();
  const python = await findPython(environment, signal);
  const subject = `${name} ${pin.version}`;
  const folder = peerFolder(environment, name, `${pin.version}-${pin.digest}-python${python.version}`);
  const peer = { name, version: pin.version, ...startedBy(python, folder, environment) } as const;
  if (await isInstalled(folder)) return { ...peer, source: "cache" };
  const onWait = (owner: number) =>
    report.note(subject, `waiting for process ${owner}, which installs it (${folder}.lock)`);
  const installUnlessThere = async (): Promise<OpenSandboxPeer> => {
    if (await isInstalled(folder)) return { ...peer, source: "cache" };
    const from = { python, requirements: pin.file, subject };
    await installServer(folder, from, { environment, report }, signal);
    return { ...peer, source: "built" };
  };
  const lock = { clock, deadline: lockDeadlineMs, onWait };
  return await withLock(`${folder}.lock`, lock, installUnlessThere, signal);
}

/**
 * Why there is none and none can be installed, with what to do about it; undefined where one is, or where all is there that its
 * install takes.
 */
export async function openSandboxObstacle(
  environment: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    if ((await fromEnvironment(environment)) === undefined) await findPython(environment, signal);
    return undefined;
  } catch (error) {
    signal.throwIfAborted();
    return error instanceof Error ? error.message : String(error);
  }
}

async function fromEnvironment(environment: NodeJS.ProcessEnv): Promise<OpenSandboxPeer | undefined> {
  const value = environment[variable];
  if (value === undefined || value === "") return undefined;
  const program = value.includes("/") ? value : await onPath(value, environment);
  if (program === undefined || !(await isProgram(program)))
    throw new Error(`${variable}=${value} is not usable as ${name}: no program that can be executed`);
  return { name, version: "unknown", source: "environment", program, args: [], environment };
}

/** The server's own script, by the Python that it was installed for, with nothing of the user's own packages. */
function startedBy(python: Python, folder: string, environment: NodeJS.ProcessEnv) {
  return {
    program: python.program,
    args: ["-s", join(folder, "bin", name)],
    environment: { ...environment, PYTHONPATH: folder, PYTHONUNBUFFERED: "1" },
  };
}

async function isInstalled(folder: string): Promise<boolean> {
  return await access(join(folder, "bin", name)).then(
    () => true,
    () => false,
  );
}

/** What is installed: another set of versions is another folder. */
async function readRequirements() {
  const file = join(import.meta.dirname, "requirements.txt");
  const content = await readFile(file, "utf8");
  const version = /^opensandbox-server==([\w.]+)/m.exec(content)?.[1];
  if (version === undefined) throw new Error(`${file} names no version of ${name}`);
  return { file, version, digest: createHash("sha256").update(content).digest("hex").slice(0, 8) };
}
