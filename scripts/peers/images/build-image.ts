import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { runCommand } from "../run-command.ts";
import type { Contexts } from "./base-images.ts";
import type { Buildkit } from "./start-buildkit.ts";

export type BuildOptions = {
  /** Absolute. */
  readonly dockerfile: string;
  /** The folder of the build; the Dockerfile's own unless given. */
  readonly folder?: string;
  /** With host and tag; it is pushed. */
  readonly reference: string;
  readonly contexts: Contexts;
  /** Reference of an image that lists what an image holds. Neither that list nor a provenance is made unless given. */
  readonly sbomGenerator?: string;
  /** What the provenance calls whoever builds. */
  readonly builderId?: string;
  /** Seconds since the epoch: what is newer is made this old. */
  readonly epoch: number;
  /** Do everything again. */
  readonly noCache?: boolean;
  readonly onLine?: (line: string) => void;
};

/** As `scripts/publish-image` has them. What stands for the images of a registry here is not compressed, as those are. */
const layers = "rewrite-timestamp=true,oci-mediatypes=true,compression=zstd,force-compression=true";
const deadline = 20 * 60_000;
const metadata = z.object({ "containerimage.digest": z.string() });

/**
 * Builds an image and pushes it. Returns the digest of what was pushed: of an index, where there are attestations.
 * Rejects with the last lines of the build.
 */
export async function buildImage(
  { buildx, environment }: Buildkit,
  options: BuildOptions,
  signal: AbortSignal,
): Promise<string> {
  const { dockerfile, reference, contexts, sbomGenerator, builderId = "", epoch } = options;
  const result = join(dirname(environment["DOCKER_CONFIG"] ?? ""), "metadata.json");
  const authorities = environment["NODE_EXTRA_CA_CERTS"];
  const args = [
    "build",
    "--progress=plain",
    `--file=${dockerfile}`,
    ...Object.entries(contexts).map(([stage, place]) => `--build-context=${stage}=${place}`),
    ...(authorities === undefined ? [] : [`--secret=id=extra_ca,src=${authorities}`]),
    ...(sbomGenerator === undefined
      ? ["--provenance=false"]
      : [`--sbom=generator=${sbomGenerator}`, `--provenance=mode=max,builder-id=${builderId}`]),
    ...(options.noCache === true ? ["--no-cache"] : []),
    `--output=type=image,name=${reference},push=true,${layers}`,
    `--metadata-file=${result}`,
    options.folder ?? dirname(dockerfile),
  ];
  const inside = { ...environment, SOURCE_DATE_EPOCH: String(epoch) };
  const { onLine } = options;
  const command = {
    program: buildx,
    args,
    environment: inside,
    deadline,
    ...(onLine === undefined ? {} : { onLine }),
  };
  await runCommand(command, signal);
  return metadata.parse(JSON.parse(await readFile(result, "utf8")))["containerimage.digest"];
}
