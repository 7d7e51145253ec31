import { mkdir, open, rm } from "node:fs/promises";
import path from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip, createZstdDecompress } from "node:zlib";
import { runCommand } from "../../../scripts/peers/run-command.ts";
import type { PushedImage } from "./pushed-image.ts";

const deadline = 120_000;
const { signal } = new AbortController();
const whiteout = ".wh.";
const opaque = ".wh..wh..opq";

async function tar(...args: readonly string[]): Promise<string> {
  return await runCommand({ program: "tar", args, environment: process.env, deadline }, signal);
}

/** The layers as plain tars in the folder, from the bottom to the top. */
export async function fetchLayers(image: PushedImage, folder: string): Promise<readonly string[]> {
  const files: string[] = [];
  for (const { digest, mediaType } of image.layers) {
    const { body } = await image.blob(digest);
    if (body === null) throw new Error(`layer ${digest} has no content`);
    const file = path.join(folder, `${files.length}.tar`);
    await using target = await open(file, "w");
    const content = mediaType.endsWith("+zstd") ? createZstdDecompress() : createGunzip();
    await pipeline(Readable.fromWeb(body), content, target.createWriteStream());
    files.push(file);
  }
  return files;
}

/** Lays the layers over each other, as a container's root file system; what a layer removes is a file `.wh.<name>` in it. */
export async function unpack(layers: readonly string[], root: string): Promise<void> {
  await mkdir(root);
  for (const layer of layers) {
    const names = (await tar("-tf", layer)).split("\n");
    for (const name of names) {
      const base = path.basename(name);
      if (base === opaque) throw new Error(`${name}: a folder that hides the one below is not expected`);
      if (!base.startsWith(whiteout)) continue;
      const removed = path.join(root, path.dirname(name), base.slice(whiteout.length));
      await rm(removed, { recursive: true, force: true });
    }
    await tar("-xpf", layer, "-C", root, "--exclude=.wh.*");
  }
}

/** Which of these texts are in a layer, under any name and in any file. */
export async function textsIn(
  layers: readonly string[],
  texts: readonly string[],
): Promise<readonly string[]> {
  const found = new Set<string>();
  const longest = Math.max(...texts.map(({ length }) => length));
  for (const layer of layers) {
    await using file = await open(layer);
    let rest = Buffer.alloc(0);
    for await (const chunk of file.createReadStream({ highWaterMark: 4 * 1024 * 1024 })) {
      const all = Buffer.concat([rest, chunk as Buffer]);
      for (const text of texts) if (all.includes(text)) found.add(text);
      // A text may lie across two chunks.
      rest = all.subarray(Math.max(0, all.length - longest));
    }
  }
  return [...found];
}
