import { createHash } from "node:crypto";
import { cp, mkdir, readFile, realpath, rm, stat, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { cachedLayer, type LayerOptions } from "../cluster/image/cached-layer.ts";
import { debianFromArchive, type DebianRecipe } from "../cluster/image/debian-archive.ts";
import type { Layer } from "../cluster/image/layer.ts";
import { writeTar } from "../cluster/image/tar.ts";
import { onPath } from "../find-peer.ts";

const recipe: DebianRecipe = {
  name: "image-debian",
  suite: "trixie",
  afterwards: [
    `rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin "$1"/var/log/apt "$1"/var/log/*.log`,
  ],
  // A fixed time, so that the same archive is the same layer.
  variables: { SOURCE_DATE_EPOCH: "0" },
};

/** Stands for `debian:trixie-slim`, where no registry can be asked. */
export async function debianBase(options: LayerOptions, signal: AbortSignal): Promise<Layer> {
  return await debianFromArchive(recipe, options, signal);
}

const nodePackage = join(import.meta.dirname, `../../../node_modules/node-linux-${process.arch}`);
const named = z.object({ version: z.string() });

/** What `node:24-trixie-slim` has above Debian: Node, as npm has installed it for images, and the npm at hand. */
export async function nodeLayer(options: LayerOptions, signal: AbortSignal): Promise<Layer> {
  const npm = await npmFolder(options.environment);
  const versions = await Promise.all([nodePackage, npm].map(versionOf));
  const make = async (file: string, abort: AbortSignal) => {
    const root = join(dirname(file), "root");
    const modules = join(root, "usr/local/lib/node_modules");
    await mkdir(join(root, "usr/local/bin"), { recursive: true });
    await mkdir(modules, { recursive: true });
    await cp(join(nodePackage, "bin/node"), join(root, "usr/local/bin/node"));
    await cp(npm, join(modules, "npm"), { recursive: true });
    await symlink("../lib/node_modules/npm/bin/npm-cli.js", join(root, "usr/local/bin/npm"));
    await writeTar(file, root, ["."], options.environment, abort);
    await rm(root, { recursive: true });
  };
  const key = createHash("sha256").update(versions.join(" ")).digest("hex").slice(0, 12);
  return await cachedLayer({ name: "image-node", key, make }, options, signal);
}

async function versionOf(folder: string): Promise<string> {
  return named.parse(JSON.parse(await readFile(join(folder, "package.json"), "utf8"))).version;
}

/** Where the npm on PATH lies. */
async function npmFolder(environment: NodeJS.ProcessEnv): Promise<string> {
  const npm = await onPath("npm", environment);
  if (npm === undefined) throw new Error("npm is not on PATH");
  const folder = join(dirname(await realpath(npm)), "..");
  await stat(join(folder, "bin/npm-cli.js"));
  return folder;
}
