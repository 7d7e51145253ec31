import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { describeImages, type Image, writeImages } from "../cluster/image/oci-layout.ts";
import { copyOneFile } from "../copy-tree.ts";
import type { ImageParts } from "./prepare-images.ts";

const config = { Env: ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"], Cmd: ["bash"] };

/** What a build takes instead of a stage of its Dockerfile: `buildx build --build-context <stage>=<place>`. */
export type Contexts = Readonly<Record<string, string>>;

/** What stands for an image of Debian and for one of Node, by the stages' names. */
export function baseImages({ layers: { debian, node } }: Pick<ImageParts, "layers">): readonly Image[] {
  return [
    { reference: "debian", layers: [debian], config },
    { reference: "node", layers: [debian, node], config },
  ];
}

/**
 * Puts into the folder what stands for the images that our Dockerfiles begin with, each under the name of its stage.
 */
export async function layOutBases(parts: ImageParts, folder: string): Promise<Contexts> {
  const { peers } = parts;
  const images = baseImages(parts);
  const layout = join(folder, "layout");
  await writeImages(images, layout);
  const { digests } = describeImages(images, process.arch);
  const place = (image: number) => `oci-layout://${layout}@${digests[image] ?? ""}`;
  const program = async (stage: string, binary: string, file: string): Promise<string> => {
    const at = join(folder, stage);
    await mkdir(join(at, file, ".."), { recursive: true });
    await copyOneFile(binary, join(at, file), "link");
    return at;
  };
  return {
    debian: place(0),
    node: place(1),
    "gitea-runner": await program("gitea-runner", peers["gitea-runner"].binary, "usr/local/bin/gitea-runner"),
    "spire-agent": await program("spire-agent", peers["spire-agent"].binary, "opt/spire/bin/spire-agent"),
    buildx: await program("buildx", peers.buildx.binary, "buildx"),
  };
}
