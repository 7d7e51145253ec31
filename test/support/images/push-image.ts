import { openAsBlob } from "node:fs";
import { z } from "zod";
import { describeImages, type Image } from "../../../scripts/peers/cluster/image/oci-layout.ts";

const index = z.object({ manifests: z.array(z.object({ mediaType: z.string(), digest: z.string() })) });

export type ImagePlace = {
  /** Address of a registry that takes everything. */
  readonly registry: string;
  readonly repository: string;
  /** The manifest's digest unless given. */
  readonly tag?: string;
};

/** Pushes an image as it is, https://distribution.github.io/distribution/spec/api/. Returns its digest. */
export async function pushImage(
  image: Image,
  { registry, repository, tag }: ImagePlace,
  signal: AbortSignal,
): Promise<string> {
  const at = `${registry}/v2/${repository}`;
  const ask = async (method: "POST" | "PUT", url: URL, type: string, body: string | Blob) => {
    const answer = await fetch(url, { method, body, headers: { "content-type": type }, signal });
    if (!answer.ok) throw new Error(`${method} ${url.pathname}: ${answer.status} ${await answer.text()}`);
    return answer;
  };
  const putBlob = async (digest: string, body: string | Blob) => {
    const type = "application/octet-stream";
    const begun = await ask("POST", new URL(`${at}/blobs/uploads/`), type, "");
    const url = new URL(begun.headers.get("location") ?? "", registry);
    url.searchParams.set("digest", `sha256:${digest}`);
    await ask("PUT", url, type, body);
  };
  const described = describeImages([image], process.arch);
  const [manifest] = index.parse(JSON.parse(described.index)).manifests;
  if (manifest === undefined) throw new Error(`${image.reference} has no manifest`);
  for (const { digest, file } of image.layers) await putBlob(digest, await openAsBlob(file));
  for (const { digest, content } of described.blobs) {
    if (`sha256:${digest}` !== manifest.digest) await putBlob(digest, content);
    // Last, as it names all others.
    else await ask("PUT", new URL(`${at}/manifests/${tag ?? manifest.digest}`), manifest.mediaType, content);
  }
  return manifest.digest;
}
