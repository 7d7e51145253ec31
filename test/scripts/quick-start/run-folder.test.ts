import assert from "node:assert/strict";
import { rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "mocha";
import { makeRunFolder } from "../../../scripts/quick-start/run-folder.ts";

describe("the folder of a run", () => {
  it("can be passed through by others, as what is made below it, and is removed with all of it", async () => {
    const folder = await makeRunFolder();
    const below = await folder.below("part");
    for (const place of [folder.path, below]) assert.equal((await stat(place)).mode & 0o777, 0o755);
    await writeFile(path.join(below, "file"), "");
    assert.equal(await folder.remove(), true);
    await assert.rejects(stat(folder.path), /ENOENT/);
    assert.equal(await folder.remove(), true);
  });

  it("stays if it is to be kept", async () => {
    const folder = await makeRunFolder({ keep: true });
    assert.equal(await folder.remove(), false);
    await stat(folder.path);
    await rm(folder.path, { recursive: true });
  });
});
