import { mkdir } from "node:fs/promises";
import path from "node:path";
import { describeLayer } from "../../../scripts/peers/cluster/image/layer.ts";
import type { Image } from "../../../scripts/peers/cluster/image/oci-layout.ts";
import { executorImage } from "../../../scripts/peers/cluster/image/references.ts";
import { readPushed } from "./pushed-image.ts";
import { fetchLayers } from "./unpack.ts";
import type { ImagesUnderTest } from "./use-images.ts";

/** The executor's image of the sources at hand, as a cluster of `scripts/peers/cluster` takes it. */
export async function builtExecutor(images: ImagesUnderTest, signal: AbortSignal): Promise<Image> {
  const digest = await images.publishPlain("runner-image", signal);
  const image = await readPushed(images.registry.url, "runner-image", digest);
  const folder = path.join(images.folder, "executor");
  await mkdir(folder);
  const layers = await Promise.all((await fetchLayers(image, folder)).map(describeLayer));
  return { reference: executorImage, layers, config: image.config };
}
