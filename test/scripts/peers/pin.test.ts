import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "mocha";
import { peerNames } from "../../../scripts/peers/peer.ts";
import { readPin } from "../../../scripts/peers/pin.ts";

describe("a peer's pin", () => {
  it("is there for every peer", async () => {
    for (const name of peerNames)
      assert.match((await readPin(name)).version, /^\d+\.\d+\.\d+$|^[\da-f]{12}$/, name);
  });

  it("is the digest of the source where the program is ours", async () => {
    assert.match((await readPin("csi-stand-in")).version, /^[\da-f]{12}$/);
  });

  it("takes Kubernetes' own modules of the same release", async () => {
    const { folder, version } = await readPin("kubelet");
    const own = version.replace(/^1\./, "v0.");
    const replaced = [...(await readFile(join(folder, "go.mod"), "utf8")).matchAll(/=> k8s\.io\/\S+ (\S+)/g)];
    assert.ok(replaced.length > 30);
    assert.deepEqual([...new Set(replaced.map(([, release]) => release))], [own]);
  });
});
