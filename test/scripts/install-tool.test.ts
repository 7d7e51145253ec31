import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readdir, readFile, symlink } from "node:fs/promises";
import path from "node:path";
import { gzipSync } from "node:zlib";
import { before, beforeEach, describe, it } from "mocha";
import { runToEnd } from "../../scripts/peers/run-to-end.ts";
import { useFakeTools } from "../support/fake-tools.ts";

const script = path.join(import.meta.dirname, "../../scripts/install-tool");
const system = "base64 bash cat dirname gzip mkdir mktemp rm sed sha256sum tar uname".split(" ");
/** An archive with nothing in it. */
const archive = gzipSync(Buffer.alloc(1024));
const checksum = createHash("sha256").update(archive).digest("hex");

describe("scripts/install-tool", () => {
  const tools = useFakeTools();
  let folder = "";
  before("play curl, on a PATH without what a system may bring", async () => {
    folder = path.join(tools.bin, "../tools");
    for (const name of system) await symlink(path.join("/usr/bin", name), path.join(tools.bin, name));
    await tools.script(
      "curl",
      'echo "$*" >> "$CALLS"',
      'while [ "$1" != --output ]; do shift; done',
      `echo ${archive.toString("base64")} | base64 -d > "$2"`,
    );
  });
  let known = 0;
  beforeEach(async () => {
    known = (await tools.calls()).length;
  });
  const fetched = async () => (await tools.calls()).slice(known);
  const run = async (args: readonly string[], more: NodeJS.ProcessEnv = {}) => {
    const environment = { ...tools.environment, PATH: tools.bin, ...more };
    return await runToEnd(
      { program: script, args, environment, deadline: 30_000 },
      new AbortController().signal,
    );
  };

  it("fetches Pulumi in the version of its SDK, if the checksum is given and is right", async () => {
    const { exitCode, stdout, stderr } = await run(["pulumi", folder], { PULUMI_SHA256: checksum });
    assert.equal(exitCode, 0, stderr);
    assert.match(stdout, /pulumi is in .*\/tools\/pulumi\n$/);
    const manifest = await readFile(path.join(import.meta.dirname, "../../package.json"), "utf8");
    const version = /"@pulumi\/pulumi": "([^"]+)"/.exec(manifest)?.[1];
    const [call = ""] = await fetched();
    assert.ok(call.endsWith(`https://get.pulumi.com/releases/sdk/pulumi-v${version}-linux-x64.tar.gz`), call);
  });

  it("says which checksum it needs, and asks nobody before", async () => {
    const { exitCode, stderr } = await run(["pulumi", folder]);
    assert.equal(exitCode, 1);
    assert.match(
      stderr,
      /^install-tool: pulumi is not on PATH, and PULUMI_SHA256, the checksum of https:\S+, is not set\n$/,
    );
    assert.equal((await run(["pulumi", folder], { PULUMI_SHA256: "abc" })).exitCode, 2);
    assert.deepEqual(await fetched(), []);
  });

  it("unpacks nothing whose checksum is another one, and leaves nothing behind", async () => {
    const { exitCode, stderr } = await run(["go", folder]);
    assert.equal(exitCode, 1);
    assert.match(stderr, /^install-tool: https:\/\/go\.dev\/dl\/go1\.\S+ is not what it was/);
    assert.deepEqual(await readdir(folder), []);
  });

  it("does nothing where the program is there, and wants a tool that it knows", async () => {
    const there = await tools.script("go", "exit 1");
    const { exitCode, stdout } = await run(["go", folder]);
    assert.deepEqual([exitCode, stdout], [0, `go is there: ${there}\n`]);
    assert.deepEqual(await fetched(), []);
    for (const args of [[], ["node", folder], ["go"], ["go", folder, "more"]])
      assert.equal((await run(args)).exitCode, 2, args.join(" "));
    assert.match((await run(["--help"])).stdout, /^Usage: install-tool go\|pulumi FOLDER/);
  });
});
