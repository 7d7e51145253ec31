import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, it } from "mocha";
import { createUidClaims } from "../../../../controller/backends/local/uid-claims.ts";

describe("claims of uids, by all controllers of a machine", () => {
  let folder: string;
  let claims: string;
  let now: number;
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), "claims-"));
    claims = path.join(folder, "run", "uids");
    now = Date.now();
  });
  afterEach(() => rm(folder, { recursive: true }));

  const controller = () => createUidClaims({ now: () => now }, claims);
  const executor = async (name: string) => {
    const its = path.join(folder, name);
    await mkdir(its);
    return its;
  };

  it("give a uid to one of those that want it at once", async () => {
    const folders = await Promise.all(["a", "b", "c"].map(executor));
    const taken = await Promise.all(folders.map((its) => controller().take(60600, its)));
    assert.equal(taken.filter(Boolean).length, 1);
    assert.deepEqual(await controller().taken(), [60600]);
  });

  it("last until they are given back, whether anything of the executor runs or not", async () => {
    const [mine, other] = [await executor("mine"), await executor("other")];
    assert.equal(await controller().take(60600, mine), true);
    now += 24 * 60 * 60_000;
    assert.deepEqual(await controller().taken(), [60600]);
    assert.equal(await controller().take(60600, other), false);
    await controller().release(60600, mine);
    assert.equal(await controller().take(60600, other), true);
  });

  it("are given back by their owner alone, and twice without an error", async () => {
    const [mine, other] = [await executor("mine"), await executor("other")];
    await controller().take(60600, mine);
    await controller().release(60600, other);
    assert.deepEqual(await controller().taken(), [60600]);
    await controller().release(60600, mine);
    await controller().release(60600, mine);
    assert.deepEqual(await controller().taken(), []);
  });

  it("are forgotten when the executor's folder is gone, though not at once", async () => {
    const lost = await executor("lost");
    await controller().take(60600, lost);
    await rm(lost, { recursive: true });
    await controller().taken();
    assert.deepEqual(await readdir(claims), ["60600"]);
    now += 61_000;
    await controller().taken();
    assert.deepEqual(await readdir(claims), []);
  });

  it("are none where nobody has made one", async () => {
    assert.deepEqual(await controller().taken(), []);
    await controller().release(60600, folder);
  });
});
