import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { delimiter, isAbsolute, join, resolve } from "node:path";
import type { Peer, PeerName } from "./peer.ts";
import { peerRecipes } from "./peer.ts";
import { runCommand } from "./run-command.ts";

const versionDeadlineMs = 20_000;
const unknownVersion = "unknown";

/** The peer that the environment variable names. Rejects, naming the variable, when that is no program that tells its version. */
export async function peerFromEnvironment(
  name: PeerName,
  environment: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<Peer | undefined> {
  const { variable } = peerRecipes[name];
  const value = environment[variable];
  if (value === undefined || value === "") return undefined;
  const binary = value.includes("/") ? resolve(value) : await onPath(value, environment);
  try {
    if (binary === undefined) throw new Error("not on PATH");
    return {
      name,
      binary,
      version: await versionOf(name, binary, environment, signal),
      source: "environment",
    };
  } catch (error) {
    signal.throwIfAborted();
    throw new Error(`${variable}=${value} is not usable as ${name}`, { cause: error });
  }
}

/** The peer on PATH, if there is one of exactly the wanted version. */
export async function peerFromPath(
  name: PeerName,
  wanted: string,
  environment: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<Peer | undefined> {
  const binary = await onPath(name, environment);
  if (binary === undefined) return undefined;
  try {
    const version = await versionOf(name, binary, environment, signal);
    return version === wanted ? { name, binary, version, source: "path" } : undefined;
  } catch {
    signal.throwIfAborted();
    return undefined;
  }
}

/** The first file of that name on PATH that may be executed. */
export async function onPath(program: string, environment: NodeJS.ProcessEnv): Promise<string | undefined> {
  for (const folder of (environment["PATH"] ?? "").split(delimiter)) {
    if (isAbsolute(folder) && (await isProgram(join(folder, program)))) return join(folder, program);
  }
  return undefined;
}

/** Whether it is a file that we may execute. */
export async function isProgram(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return (await stat(file)).isFile();
  } catch {
    return false;
  }
}

async function versionOf(
  name: PeerName,
  binary: string,
  environment: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<string> {
  if (!(await isProgram(binary))) throw new Error(`${binary} is no program that can be executed`);
  const { tellsNoVersion, versionArgs = ["--version"] } = peerRecipes[name];
  if (tellsNoVersion === true) return unknownVersion;
  const errors: string[] = [];
  const onLine = (line: string) => void errors.push(line);
  const command = { program: binary, args: versionArgs, environment, deadline: versionDeadlineMs, onLine };
  // SPIRE tells it on stderr.
  const text = (await runCommand(command, signal)) || errors.join("\n");
  const version = /\bv?(\d+\.\d+\.\d+[\w.+-]*)/.exec(text)?.[1];
  if (version === undefined)
    throw new Error(`${versionArgs.join(" ")} says ${JSON.stringify(text.slice(0, 200))}`);
  return version;
}
