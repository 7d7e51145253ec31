import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { onPath } from "./find-peer.ts";
import { moduleFolder } from "./module-folder.ts";
import type { PeerName } from "./peer.ts";
import { peerRecipes } from "./peer.ts";
import type { Pin } from "./pin.ts";
import type { Report } from "./report.ts";
import { runCommand } from "./run-command.ts";

const buildDeadlineMs = 45 * 60_000;
const goDeadlineMs = 60_000;

/**
 * Builds a peer with Go as `<folder>/<name>`. It appears there by a rename: an interrupted build leaves nothing half-written.
 * Call it with the peer's lock held. Rejects with what to install or to set when Go is missing or too old.
 */
export async function buildPeer(
  name: PeerName,
  pin: Pin,
  folder: string,
  options: { readonly environment: NodeJS.ProcessEnv; readonly report: Report },
  signal: AbortSignal,
): Promise<void> {
  const recipe = peerRecipes[name];
  const subject = `${name} ${pin.version}`;
  const environment = goEnvironment(options.environment);
  const go = await findGo(name, pin, environment, signal);
  const building = `${folder}.building`;
  await rm(building, { recursive: true, force: true });
  await mkdir(building, { recursive: true });
  const step = options.report.begin(subject, "building with Go");
  let downloaded = 0;
  let compiled = 0;
  const onLine = (line: string) => {
    if (line.startsWith("go: downloading ")) downloaded++;
    else if (!line.includes(" ")) compiled++;
    step.detail(`${downloaded} modules loaded, ${compiled} packages built`);
  };
  const flags = ["-v", "-buildvcs=false", "-mod=readonly", "-tags", recipe.tags.join(" ")];
  const linker = `-s -w ${recipe.linkerFlags(pin.version)}`.trim();
  try {
    const overlay = await overlayFlags(name, pin, go, { building, environment }, signal);
    const output = ["-ldflags", linker, "-o", join(building, name)];
    const args = ["build", ...flags, ...overlay, ...output, recipe.package];
    // Go that is ended leaves what it had there behind; the whole folder goes.
    const cgo = recipe.cgo === undefined ? {} : { CGO_ENABLED: recipe.cgo ? "1" : "0" };
    const inside = { ...environment, ...cgo, GOTMPDIR: building };
    const command = {
      program: go,
      args,
      folder: pin.folder,
      environment: inside,
      deadline: buildDeadlineMs,
      onLine,
    };
    await runCommand(command, signal);
    await mkdir(folder, { recursive: true });
    await rename(join(building, name), join(folder, name));
    step.end("done");
  } catch (error) {
    step.end(signal.aborted ? "interrupted" : "failed");
    throw signal.aborted ? error : new Error(`building ${subject}`, { cause: error });
  } finally {
    await rm(building, { recursive: true, force: true });
  }
}

/** Makes Go see what the source embeds where it looks for it. The folder of the source stays as it is. */
async function overlayFlags(
  name: PeerName,
  pin: Pin,
  go: string,
  { building, environment }: { readonly building: string; readonly environment: NodeJS.ProcessEnv },
  signal: AbortSignal,
): Promise<readonly string[]> {
  const { embedded } = peerRecipes[name];
  if (embedded === undefined) return [];
  const replaced: Record<string, string> = {};
  for (const [place, { module, file }] of Object.entries(embedded)) {
    const source = await moduleFolder(go, module, pin, environment, signal);
    replaced[join(pin.folder, place)] = join(source, file);
  }
  const overlay = join(building, "overlay.json");
  await writeFile(overlay, JSON.stringify({ Replace: replaced }));
  return ["-overlay", overlay];
}

/** Go's own download of a newer toolchain is left out: the error says what is missing instead of waiting for a network. */
export function goEnvironment(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return { ...environment, GOTOOLCHAIN: "local", GOWORK: "off" };
}

/** Path of a Go that is new enough for the pin. */
export async function findGo(
  name: PeerName,
  pin: Pin,
  environment: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<string> {
  const remedy = `install Go ${pin.goVersion} or newer (https://go.dev/dl), or set ${peerRecipes[name].variable} to a ${name} binary`;
  const go = await onPath("go", environment);
  if (go === undefined)
    throw new Error(`${name} ${pin.version} has to be built, and Go is not on PATH: ${remedy}`);
  const command = { program: go, args: ["env", "GOVERSION"], environment, deadline: goDeadlineMs };
  const version = (await runCommand(command, signal)).trim().replace(/^go/, "");
  if (!isAtLeast(version, pin.goVersion)) {
    throw new Error(`${name} ${pin.version} has to be built, and ${go} is Go ${version}: ${remedy}`);
  }
  return go;
}

function numbers(version: string): readonly number[] {
  return version.split(".").map((part) => Number.parseInt(part, 10));
}

function isAtLeast(version: string, wanted: string): boolean {
  const have = numbers(version);
  for (const [index, want] of numbers(wanted).entries()) {
    const got = have[index] ?? 0;
    if (got !== want) return got > want;
  }
  return true;
}
