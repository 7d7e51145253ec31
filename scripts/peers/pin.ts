import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { PeerName } from "./peer.ts";
import { peerRecipes } from "./peer.ts";

export type Pin = {
  /** Without the leading `v`; of a program of ours what its source amounts to. */
  readonly version: string;
  /** The Go release that the peer's go.mod asks for at least. */
  readonly goVersion: string;
  /** Folder with the peer's go.mod and go.sum. */
  readonly folder: string;
};

/** Reads a peer's pinned version from its go.mod. */
export async function readPin(name: PeerName): Promise<Pin> {
  const { module, folder: own = name } = peerRecipes[name];
  const folder = join(import.meta.dirname, own);
  const goMod = await readFile(join(folder, "go.mod"), "utf8");
  const version =
    module === undefined ? await digestOf(folder) : /v(\S+)/.exec(moduleLine(goMod, module))?.[1];
  const goVersion = /^go (\S+)$/m.exec(goMod)?.[1];
  if (version === undefined || goVersion === undefined) {
    throw new Error(`${join(folder, "go.mod")} names no version of ${module ?? "it"}, or none of Go`);
  }
  return { version, goVersion, folder };
}

/** Changes with every file in the folder. */
async function digestOf(folder: string): Promise<string> {
  const hash = createHash("sha256");
  for (const name of (await readdir(folder)).toSorted()) {
    const content = await readFile(join(folder, name));
    hash.update(`${name} ${content.length}\n`).update(content);
  }
  return hash.digest("hex").slice(0, 12);
}

/** What follows the module's path in its `require` line. */
function moduleLine(goMod: string, module: string): string {
  for (const line of goMod.split("\n")) {
    const words = line
      .trim()
      .replace(/^require\s+/, "")
      .split(/\s+/);
    if (words[0] === module && words[1]?.startsWith("v") === true) return words[1];
  }
  return "";
}
