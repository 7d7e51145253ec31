import assert from "node:assert/strict";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, it } from "mocha";
import { checkHost } from "../../../../controller/backends/local/check-host.ts";
import {
  closedFolder,
  makeFolder,
  removeTree,
  writeFileAtomically,
} from "../../../../controller/backends/local/files.ts";

describe("files of the local backend", () => {
  let folder: string;
  let umask: number;
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), "files-"));
    umask = process.umask(0o077);
  });
  afterEach(async () => {
    process.umask(umask);
    await rm(folder, { recursive: true, force: true });
  });

  it("are replaced whole, with the mode that was asked for, and leave nothing beside them", async () => {
    const file = path.join(folder, "a.json");
    await writeFileAtomically(file, "first", 0o644);
    await writeFileAtomically(file, "second", 0o644);
    assert.equal(await readFile(file, "utf8"), "second");
    assert.equal((await stat(file)).mode & 0o777, 0o644);
    assert.deepEqual(await readdir(folder), ["a.json"]);
  });

  it("are removed with folders that cannot be written to, but not through links", async () => {
    const tree = path.join(folder, "tree");
    await mkdir(path.join(tree, "module/deep"), { recursive: true });
    await writeFile(path.join(tree, "module/deep/go.mod"), "");
    const outside = path.join(folder, "outside");
    await mkdir(outside);
    await writeFile(path.join(outside, "kept"), "");
    await symlink(outside, path.join(tree, "link"));
    for (const closed of ["module/deep", "module"]) await chmod(path.join(tree, closed), 0o555);
    await removeTree(tree);
    await removeTree(tree);
    assert.deepEqual(await readdir(folder), ["outside"]);
    assert.deepEqual(await readdir(outside), ["kept"]);
  });

  it("tell which folder on the way is closed to others", async () => {
    const [open, below] = [path.join(folder, "open"), path.join(folder, "open/below")];
    await makeFolder(folder, 0o755);
    await makeFolder(open, 0o755);
    assert.equal(await closedFolder(below), undefined);
    await chmod(folder, 0o750);
    assert.equal(await closedFolder(below), folder);
    assert.equal(await closedFolder(open), folder);
  });
});

describe("the host of the local backend", () => {
  it("must be Linux, and not in production", () => {
    checkHost("linux", undefined);
    checkHost("linux", "development");
    assert.throws(() => checkHost("darwin", undefined), /needs Linux and its \/proc, this is darwin/);
    assert.throws(() => checkHost("linux", "production"), /refused with NODE_ENV=production/);
  });
});
