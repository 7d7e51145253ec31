import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { copyOneFile } from "../copy-tree.ts";
import type { Contexts } from "./base-images.ts";
import { buildImage } from "./build-image.ts";
import type { ImageParts } from "./prepare-images.ts";
import type { Buildkit } from "./start-buildkit.ts";

/** Builds the image that lists what is in images, and pushes it: BuildKit takes it from a registry only. Returns its reference. */
export async function pushSbomGenerator(
  buildkit: Buildkit,
  from: {
    readonly parts: ImageParts;
    readonly contexts: Contexts;
    /** The registry's. */
    readonly host: string;
    readonly folder: string;
  },
  signal: AbortSignal,
): Promise<string> {
  const { parts, contexts, host, folder } = from;
  const syft = join(folder, "syft");
  await mkdir(syft, { recursive: true });
  await copyOneFile(parts.syft, join(syft, "syft"), "link");
  const repository = `${host}/lib/sbom-generator`;
  const dockerfile = join(import.meta.dirname, "sbom-generator/Dockerfile");
  const debian = contexts["debian"] ?? "";
  const options = { dockerfile, reference: `${repository}:1`, contexts: { debian, syft }, epoch: 0 };
  return `${repository}@${await buildImage(buildkit, options, signal)}`;
}
