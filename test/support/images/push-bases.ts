import { mkdir } from "node:fs/promises";
import path from "node:path";
import { describeLayer } from "../../../scripts/peers/cluster/image/layer.ts";
import type { Image } from "../../../scripts/peers/cluster/image/oci-layout.ts";
import { writeTar } from "../../../scripts/peers/cluster/image/tar.ts";
import { baseImages } from "../../../scripts/peers/images/base-images.ts";
import { pushImage } from "./push-image.ts";
import type { ImagesUnderTest } from "./use-images.ts";

/**
 * Puts what stands for the images that our Dockerfiles begin with into the registry. Returns their references with digest,
 * by the stages' names.
 */
export async function pushBases(
  { parts, contexts, registry, folder }: ImagesUnderTest,
  signal: AbortSignal,
): Promise<Readonly<Record<string, string>>> {
  const place = path.join(folder, "pushed-bases");
  await mkdir(place);
  const images: Image[] = [...baseImages(parts)];
  for (const [stage, from] of Object.entries(contexts)) {
    if (images.some(({ reference }) => reference === stage)) continue;
    const file = path.join(place, `${stage}.tar`);
    await writeTar(file, from, ["."], parts.environment, signal);
    images.push({ reference: stage, layers: [await describeLayer(file)], config: {} });
  }
  const pushed: Record<string, string> = {};
  for (const image of images) {
    const repository = `base/${image.reference}`;
    const digest = await pushImage(image, { registry: registry.url, repository }, signal);
    pushed[image.reference] = `${registry.host}/${repository}@${digest}`;
  }
  return pushed;
}
