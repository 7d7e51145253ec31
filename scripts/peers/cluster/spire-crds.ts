import { mkdir, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "yaml";
import { findGo, goEnvironment } from "../build-peer.ts";
import { peerFolder } from "../cache-folder.ts";
import { copyTree } from "../copy-tree.ts";
import { moduleFolder } from "../module-folder.ts";
import { readPin } from "../pin.ts";
import type { KubernetesObject } from "./api.ts";

const peer = "spire-controller-manager";

/**
 * The custom resources that spire-controller-manager looks at, from its module. A copy stays in the cache, so that Go
 * is asked once.
 */
export async function spireCrds(
  environment: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<readonly KubernetesObject[]> {
  const pin = await readPin(peer);
  const folder = join(peerFolder(environment, peer, pin.version), "crd");
  const there = await readCrds(folder);
  if (there.length > 0) return there;
  const forGo = goEnvironment(environment);
  const go = await findGo(peer, pin, forGo, signal);
  const module = "github.com/spiffe/spire-controller-manager";
  const source = await moduleFolder(go, module, pin, forGo, signal);
  const making = `${folder}.${process.pid}`;
  try {
    await mkdir(making, { recursive: true });
    await copyTree(join(source, "config/crd/bases"), making, "copy");
    await rename(making, folder).catch((error: unknown) => {
      // Somebody else was faster, with the same files.
      if ((error as NodeJS.ErrnoException).code !== "ENOTEMPTY") throw error;
    });
  } finally {
    await rm(making, { recursive: true, force: true });
  }
  return await readCrds(folder);
}

async function readCrds(folder: string): Promise<readonly KubernetesObject[]> {
  let names: readonly string[];
  try {
    names = await readdir(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
  const crds = names.filter((name) => name.startsWith("spire.spiffe.io_cluster"));
  return await Promise.all(
    crds.map(async (name) => parse(await readFile(join(folder, name), "utf8")) as KubernetesObject),
  );
}
