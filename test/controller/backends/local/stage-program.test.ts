import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, it } from "mocha";
import { packageClosure } from "../../../../controller/backends/local/package-closure.ts";
import { stageProgram } from "../../../../controller/backends/local/stage-program.ts";
import { canGiveUids } from "./if-root.ts";
import { exists } from "./local-world.ts";

const run = promisify(execFile);
const repository = path.join(import.meta.dirname, "../../../..");

describe("the staged program", () => {
  let folder: string;
  let source: string;
  let target: string;
  const write = async (file: string, content: unknown) => {
    const to = path.join(source, file);
    await mkdir(path.dirname(to), { recursive: true, mode: 0o700 });
    await writeFile(to, typeof content === "string" ? content : JSON.stringify(content), { mode: 0o600 });
  };
  const installed = (at: string, version: string, dependencies: object = {}) => {
    const name = at.slice(at.lastIndexOf("node_modules/") + "node_modules/".length);
    const content = { name, version, main: "index.js", ...dependencies };
    return Promise.all([
      write(`${at}/package.json`, content),
      write(`${at}/index.js`, `module.exports = "${name} ${version}";`),
    ]);
  };
  const stage = (more: { readonly spireAgentBinary?: string } = {}) =>
    stageProgram({
      ...more,
      source,
      target,
      node: process.execPath,
      giteaRunnerBinary: path.join(source, "gitea-runner"),
      packages: ["a", "@scope/b"],
    });

  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), "stage-"));
    await chmod(folder, 0o755);
    // As in a home folder: nobody else may read anything.
    source = path.join(folder, "source");
    target = path.join(folder, "target");
    await write("package.json", { type: "module" });
    await write("gitea-runner", "#!/bin/sh\necho runner\n");
    await chmod(path.join(source, "gitea-runner"), 0o700);
    await write(
      "controller/bootstrap/main.ts",
      `import a from "a"; import b from "@scope/b"; import { gen } from "../../proto/gen/x_pb.ts";
       const text: string = [a, b, gen].join(", "); console.log(text, process.version);`,
    );
    await write("proto/gen/x_pb.ts", `export const gen: string = "gen";`);
    await installed("node_modules/a", "1.0.0", { dependencies: { c: "^2.0.0" } });
    await installed("node_modules/@scope/b", "1.0.0", {
      dependencies: { c: "^1.0.0" },
      peerDependencies: { a: "*", absent: "*" },
      optionalDependencies: { missing: "*" },
    });
    await installed("node_modules/@scope/b/node_modules/c", "1.0.0");
    await installed("node_modules/c", "2.0.0", { dependencies: { a: "*" } });
    await installed("node_modules/not-needed", "1.0.0");
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  it("has the packages that are needed, as Node finds them, and no others", async () => {
    assert.deepEqual(await packageClosure(source, ["@scope/b"]), [
      { folder: "node_modules/@scope/b", id: "@scope/b@1.0.0" },
      { folder: "node_modules/@scope/b/node_modules/c", id: "c@1.0.0" },
      { folder: "node_modules/a", id: "a@1.0.0" },
      { folder: "node_modules/c", id: "c@2.0.0" },
    ]);
    await assert.rejects(
      packageClosure(source, ["nowhere"]),
      /package nowhere, needed by the program, is not/,
    );
  });

  it("has the packages without their types, which nobody reads who runs it", async () => {
    const unread = ["index.d.ts", "index.d.cts", "src/index.ts", "src/index.mts"];
    for (const file of [...unread, "lib/ts.js"]) await write(`node_modules/a/${file}`, "");
    const { folder: staged } = await stage();
    const entries = await readdir(path.join(staged, "node_modules/a"), { recursive: true });
    assert.deepEqual(entries.toSorted(), ["index.js", "lib", "lib/ts.js", "package.json", "src"]);
  });

  it("runs without its source", async () => {
    const program = await stage();
    await rm(source, { recursive: true });
    const { stdout } = await run(program.node, [program.bootstrap], { env: {} });
    assert.equal(stdout, `a 1.0.0, @scope/b 1.0.0, gen ${process.version}\n`);
    assert.equal((await run(program.giteaRunnerBinary)).stdout, "runner\n");
    assert.equal(await exists(path.join(program.folder, "node_modules/not-needed")), false);
  });

  it("is JavaScript, which Node loads in half the time", async () => {
    const { folder: staged, bootstrap } = await stage();
    assert.equal(bootstrap, path.join(staged, "controller/bootstrap/main.js"));
    const inside = await Promise.all(
      ["controller", "proto/gen"].map((name) => readdir(path.join(staged, name), { recursive: true })),
    );
    assert.deepEqual(inside, [["bootstrap", "bootstrap/main.js"], ["x_pb.js"]]);
  });

  it("stays one for the same content, also when several stage it at once", async () => {
    const programs = await Promise.all([stage(), stage(), stage()]);
    const [first] = programs;
    for (const other of programs) assert.deepEqual(other, first);
    const before = (await stat(first.bootstrap)).ino;
    assert.deepEqual(await stage(), first);
    assert.equal((await stat(first.bootstrap)).ino, before);
    assert.deepEqual(await readdir(path.join(target, "program")), [path.basename(first.folder)]);
  });

  it("becomes another one when the source changes, and the old one stays as it is", async () => {
    const first = await stage();
    const text = await readFile(first.bootstrap, "utf8");
    await write("controller/bootstrap/main.ts", "console.log('changed');");
    const second = await stage();
    assert.notEqual(second.folder, first.folder);
    assert.equal(await readFile(first.bootstrap, "utf8"), text);
    await installed("node_modules/c", "2.0.1");
    assert.notEqual((await stage()).folder, second.folder);
  });

  it("has, for jobs on real SPIRE, the agent's program and the check of the job's identity", async () => {
    const without = await stage();
    assert.equal(await exists(path.join(without.folder, "bin/gitea-job-started")), false);
    await write("spire-agent", "#!/bin/sh\necho agent\n");
    await chmod(path.join(source, "spire-agent"), 0o700);
    await write("scripts/gitea-job-started", "#!/bin/sh\necho started\n");
    await chmod(path.join(source, "scripts/gitea-job-started"), 0o700);
    const first = await stage({ spireAgentBinary: path.join(source, "spire-agent") });
    assert.equal((await run(path.join(first.folder, "bin/spire-agent"))).stdout, "agent\n");
    assert.equal((await run(path.join(first.folder, "bin/gitea-job-started"))).stdout, "started\n");
    assert.equal((await stat(path.join(first.folder, "bin/gitea-job-started"))).mode & 0o777, 0o755);
    await write("scripts/gitea-job-started", "#!/bin/sh\necho changed\n");
    assert.notEqual(
      (await stage({ spireAgentBinary: path.join(source, "spire-agent") })).folder,
      first.folder,
    );
  });

  it("leaves nothing half done when a file is missing", async () => {
    await rm(path.join(source, "gitea-runner"));
    await assert.rejects(stage(), /ENOENT/);
    assert.deepEqual(await readdir(path.join(target, "program")), []);
  });

  it("has all that our own bootstrap needs to start", async function () {
    // Thousands of files are copied.
    this.timeout(120_000);
    const binaries = { node: process.execPath, giteaRunnerBinary: path.join(source, "gitea-runner") };
    const program = await stageProgram({ source: repository, target, ...binaries });
    const { bootstrap, node } = program;
    const { stderr } = await run(node, [bootstrap], { env: {} }).catch(
      (error: { readonly stderr: string }) => error,
    );
    assert.match(stderr, /CI_RUNNER_CAPABILITY is missing/);
  });

  if (!canGiveUids("the staged program runs under another uid")) return;
  it("runs under another uid, from a source that is closed to it, whatever our umask", async () => {
    const umask = process.umask(0o077);
    try {
      const program = await stage();
      const { stdout } = await run(program.node, [program.bootstrap], {
        uid: 60999,
        gid: 60999,
        env: {},
        cwd: "/",
      });
      assert.match(stdout, /^a 1\.0\.0, /);
      const runner = await run(program.giteaRunnerBinary, { uid: 60999, gid: 60999, cwd: "/" });
      assert.equal(runner.stdout, "runner\n");
    } finally {
      process.umask(umask);
    }
  });
});
