import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "mocha";
import { describeLayer } from "../../../../scripts/peers/cluster/image/layer.ts";
import { byDigest, type Image, writeImages } from "../../../../scripts/peers/cluster/image/oci-layout.ts";

type Reference = { readonly digest: string; readonly size: number };

describe("images in a folder", () => {
  let folder: string;
  let images: readonly Image[];
  before("write two images that share a layer", async () => {
    folder = await mkdtemp(join(tmpdir(), "images-"));
    await writeFile(join(folder, "below.tar"), "below");
    await writeFile(join(folder, "above.tar"), "above it");
    const [below, above] = [
      await describeLayer(join(folder, "below.tar")),
      await describeLayer(join(folder, "above.tar")),
    ];
    images = [
      { reference: "example.org/one:1", layers: [below], config: {} },
      { reference: "example.org/two:1", layers: [below, above], config: { User: "2000" } },
    ];
  });
  after(() => rm(folder, { recursive: true }));

  const blob = async (place: string, { digest, size }: Reference): Promise<string> => {
    const content = await readFile(join(place, "blobs", digest.replace(":", "/")));
    assert.equal(content.length, size);
    assert.equal(`sha256:${createHash("sha256").update(content).digest("hex")}`, digest);
    return content.toString();
  };

  it("are found by their names, each blob under its digest", async () => {
    const place = join(folder, "all");
    await writeImages(images, place);
    const index = JSON.parse(await readFile(join(place, "index.json"), "utf8")) as {
      manifests: (Reference & { annotations: Record<string, string> })[];
    };
    const names = index.manifests.map(({ annotations }) => annotations["io.containerd.image.name"]);
    assert.deepEqual(names, ["example.org/one:1", "example.org/two:1"]);
    const [, second] = index.manifests;
    assert.ok(second !== undefined);
    const manifest = JSON.parse(await blob(place, second)) as { config: Reference; layers: Reference[] };
    const layers = await Promise.all(manifest.layers.map((layer) => blob(place, layer)));
    assert.deepEqual(layers, ["below", "above it"]);
    const config = JSON.parse(await blob(place, manifest.config)) as {
      config: object;
      rootfs: { diff_ids: string[] };
    };
    assert.deepEqual(config.config, { User: "2000" });
    // Layers are not compressed.
    assert.deepEqual(
      config.rootfs.diff_ids,
      manifest.layers.map(({ digest }) => digest),
    );
  });

  it("are the same under their digests", async () => {
    const [, image] = images;
    assert.ok(image !== undefined);
    const place = join(folder, "pinned");
    const pinned = byDigest(image);
    await writeImages([image, pinned], place);
    const index = JSON.parse(await readFile(join(place, "index.json"), "utf8")) as {
      manifests: readonly Reference[];
    };
    const digests = new Set(index.manifests.map(({ digest }) => digest));
    assert.deepEqual([...digests], [pinned.reference.replace("example.org/two@", "")]);
  });

  it("lack the layers that are there already", async () => {
    const place = join(folder, "some");
    const [shared] = images[0]?.layers ?? [];
    assert.ok(shared !== undefined);
    await writeImages(images, place, [shared]);
    const there = await readdir(join(place, "blobs/sha256"));
    assert.ok(!there.includes(shared.digest));
    assert.equal(there.length, 5);
  });
});
