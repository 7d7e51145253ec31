import assert from "node:assert/strict";
import { chmod, mkdir, mkdtemp, readFile, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "mocha";
import { stageBinary, stageFolder } from "../../../scripts/peers/stage.ts";

describe("staging for other users", () => {
  let folder = "";
  const modeOf = async (path: string) => (await stat(path)).mode & 0o777;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "stage-"));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  it("puts a program where everybody can run it, and replaces an older one", async () => {
    const source = join(folder, "tool");
    const target = join(folder, "run");
    await writeFile(source, "old", { mode: 0o755 });
    await mkdir(target, { mode: 0o700 });
    assert.equal(await stageBinary(source, target), join(target, "tool"));
    assert.equal(await stageBinary(source, target), join(target, "tool"));
    assert.equal(await modeOf(target), 0o755);
    await rm(source);
    await writeFile(source, "new", { mode: 0o755 });
    await stageBinary(source, target);
    assert.equal(await readFile(join(target, "tool"), "utf8"), "new");
    assert.deepEqual(await readdir(target), ["tool"]);
  });

  it("makes what nobody else may read readable, without touching the source", async () => {
    const source = join(folder, "source");
    await mkdir(source, { mode: 0o700 });
    await writeFile(join(source, "tool"), "tool", { mode: 0o700 });
    await writeFile(join(source, "text"), "text", { mode: 0o600 });
    const staged = await stageFolder(source, join(folder, "run"), "static");
    assert.equal(await modeOf(staged), 0o755);
    assert.equal(await modeOf(join(staged, "tool")), 0o755);
    assert.equal(await modeOf(join(staged, "text")), 0o644);
    assert.equal(await modeOf(join(source, "tool")), 0o700);
  });

  it("keeps the mode of a folder that is open already", async () => {
    const source = join(folder, "tool");
    await writeFile(source, "tool", { mode: 0o755 });
    const open = join(folder, "open");
    await mkdir(open);
    await chmod(open, 0o1777);
    await stageBinary(source, open);
    assert.equal((await stat(open)).mode & 0o7777, 0o1777);
  });

  it("replaces a folder as a whole", async () => {
    const source = join(folder, "source");
    await mkdir(join(source, "deep"), { recursive: true });
    await writeFile(join(source, "deep", "file"), "text");
    const target = join(folder, "run");
    await mkdir(join(target, "static"), { recursive: true });
    await writeFile(join(target, "static", "left-over"), "old");
    const staged = await stageFolder(source, target, "static");
    assert.equal(staged, join(target, "static"));
    assert.deepEqual(await readdir(staged), ["deep"]);
    assert.equal(await readFile(join(staged, "deep", "file"), "utf8"), "text");
  });
});
