import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { buildImage } from "../../../scripts/peers/images/build-image.ts";
import type { ImagesUnderTest } from "./use-images.ts";

/** Images that a stack may begin with, by the names that its settings have for them. */
export type Bases = Readonly<Record<"debian" | "node" | "giteaRunner", string>>;

/** Pushes what stands for some of the images that our Dockerfiles begin with, as a mirror has them. Returns references by digest. */
export async function pushBases(images: ImagesUnderTest, signal: AbortSignal): Promise<Bases> {
  const { registry, buildkit, contexts, folder } = images;
  const push = async (stage: string, lines: string): Promise<string> => {
    const repository = `${registry.host}/mirror/${stage}`;
    const own = path.join(folder, "mirror", stage);
    await mkdir(own, { recursive: true });
    const dockerfile = path.join(own, "Dockerfile");
    await writeFile(dockerfile, lines);
    const context = { [stage]: contexts[stage] ?? "" };
    const options = { dockerfile, reference: `${repository}:1`, contexts: context, epoch: 0 };
    return `${repository}@${await buildImage(buildkit, options, signal)}`;
  };
  return {
    debian: await push("debian", "FROM debian\n"),
    node: await push("node", "FROM node\n"),
    giteaRunner: await push("gitea-runner", "FROM scratch\nCOPY --from=gitea-runner / /\n"),
  };
}
