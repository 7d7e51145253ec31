import { createHash } from "node:crypto";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Layer } from "./layer.ts";

export type Image = {
  /** With host and tag, as in `lab.local/executor:1`. */
  readonly reference: string;
  /** From the bottom to the top. */
  readonly layers: readonly Layer[];
  /** As the image specification's `config`: entry point, user, environment. */
  readonly config: object;
};

export type Blob = { readonly digest: string; readonly content: string };

type Descriptor = { readonly mediaType: string; readonly digest: string; readonly size: number };

const mediaType = "application/vnd.oci.image";
const architectures: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64" };

/** `digests`: of the images, in their order, as in `sha256:…`. */
export type Description = {
  readonly index: string;
  readonly blobs: readonly Blob[];
  readonly digests: readonly string[];
};

/**
 * The index of images that share layers, and what it refers to besides the layers,
 * https://github.com/opencontainers/image-spec/blob/v1.1.0/image-layout.md. The same images give the same text.
 */
export function describeImages(images: readonly Image[], arch: string): Description {
  const blobs: Blob[] = [];
  const add = (type: string, value: object): Descriptor => {
    const content = JSON.stringify(value);
    const digest = createHash("sha256").update(content).digest("hex");
    blobs.push({ digest, content });
    return { mediaType: `${mediaType}.${type}.v1+json`, digest: `sha256:${digest}`, size: content.length };
  };
  const platform = { architecture: architectures[arch] ?? arch, os: "linux" };
  const manifests = images.map(({ reference, layers, config }) => {
    const rootfs = { type: "layers", diff_ids: layers.map(({ digest }) => `sha256:${digest}`) };
    const manifest = {
      schemaVersion: 2,
      mediaType: `${mediaType}.manifest.v1+json`,
      config: add("config", { ...platform, config, rootfs }),
      layers: layers.map(({ digest, size }) => ({
        mediaType: `${mediaType}.layer.v1.tar`,
        digest: `sha256:${digest}`,
        size,
      })),
    };
    return {
      ...add("manifest", manifest),
      platform,
      annotations: { "io.containerd.image.name": reference },
    };
  });
  const index = { schemaVersion: 2, mediaType: `${mediaType}.index.v1+json`, manifests };
  return { index: JSON.stringify(index), blobs, digests: manifests.map(({ digest }) => digest) };
}

/** The same image under the name by which workloads that insist on this very one know it, as in `host/name@sha256:…`. */
export function byDigest(image: Image): Image {
  const { digests } = describeImages([image], process.arch);
  return { ...image, reference: `${image.reference.replace(/:[^/]*$/, "")}@${digests.join("")}` };
}

/**
 * Lays images out in a folder that is not there yet; layers are linked to by their names. Those that whoever reads it
 * has already may be left out.
 */
export async function writeImages(
  images: readonly Image[],
  folder: string,
  without: readonly Layer[] = [],
): Promise<void> {
  const { index, blobs } = describeImages(images, process.arch);
  const place = join(folder, "blobs/sha256");
  await mkdir(place, { recursive: true });
  await writeFile(join(folder, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
  await writeFile(join(folder, "index.json"), index);
  for (const { digest, content } of blobs) await writeFile(join(place, digest), content);
  const known = new Set(without.map(({ digest }) => digest));
  const layers = new Map(images.flatMap((image) => image.layers.map(({ digest, file }) => [digest, file])));
  for (const [digest, file] of layers) if (!known.has(digest)) await symlink(file, join(place, digest));
}
