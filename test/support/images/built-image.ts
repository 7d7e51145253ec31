import { mkdir } from "node:fs/promises";
import path from "node:path";
import { before } from "mocha";
import { type PushedImage, readPushed } from "./pushed-image.ts";
import { fetchLayers, unpack } from "./unpack.ts";
import type { ImagesUnderTest, OurImage } from "./use-images.ts";

/** An image of ours as the registry has it. */
export type BuiltImage = {
  readonly image: PushedImage;
  /** Files with its layers, the lowest first. */
  readonly layers: readonly string[];
  /** Folder with what a container of it sees. */
  readonly root: string;
};

const { signal } = new AbortController();

/** Registers a hook that builds and pushes one of our images as it is published, and unpacks it, within `buildMs`. */
export function useBuiltImage(
  images: () => ImagesUnderTest,
  name: OurImage,
  buildMs: number,
): () => BuiltImage {
  let built: BuiltImage | undefined;
  before("build and push it", async function () {
    this.timeout(buildMs);
    const { folder, registry } = images();
    const begun = performance.now();
    const digest = await images().publish(name, signal);
    console.log(`      built in ${((performance.now() - begun) / 1000).toFixed(1)} s`);
    const image = await readPushed(registry.url, name, digest);
    const [root, files] = [path.join(folder, "root"), path.join(folder, "layers")];
    await mkdir(files);
    const layers = await fetchLayers(image, files);
    await unpack(layers, root);
    built = { image, layers, root };
  });
  return () => {
    if (built === undefined) throw new Error("the image is built from the first test on");
    return built;
  };
}
