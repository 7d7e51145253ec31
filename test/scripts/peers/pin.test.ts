import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "mocha";
import { peerNames, peerRecipes, platformPeers } from "../../../scripts/peers/peer.ts";
import { readPin } from "../../../scripts/peers/pin.ts";

describe("a peer's pin", () => {
  it("is there for every peer", async () => {
    for (const name of peerNames)
      assert.match((await readPin(name)).version, /^\d+\.\d+\.\d+$|^[\da-f]{12}$/, name);
  });

  it("stands in a module of its own that names the program as a tool, with the sums of all that it takes", async () => {
    for (const name of peerNames.filter((one) => peerRecipes[one].package !== ".")) {
      const { folder } = await readPin(name);
      const lines = (await readFile(join(folder, "go.mod"), "utf8")).split("\n").map((line) => line.trim());
      const tool = peerRecipes[name].package;
      assert.ok(lines.includes(`tool ${tool}`) || (lines.includes("tool (") && lines.includes(tool)), name);
      assert.match(await readFile(join(folder, "go.sum"), "utf8"), /^\S+ v\S+ h1:/, name);
    }
  });

  it("asks for the Go that the README tells of, or an older one", async () => {
    const wanted = await Promise.all(platformPeers.map(async (name) => (await readPin(name)).goVersion));
    const newest = wanted.toSorted((a, b) => a.localeCompare(b, "en", { numeric: true })).at(-1);
    const page = await readFile(join(import.meta.dirname, "../../../README.md"), "utf8");
    assert.equal(/\bGo (\d[\d.]*\d)/.exec(page)?.[1], newest);
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
