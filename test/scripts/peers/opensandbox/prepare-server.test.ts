import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "mocha";
import { describeError } from "../../../../controller/platform/errors.ts";
import {
  openSandboxObstacle,
  prepareOpenSandbox,
} from "../../../../scripts/peers/opensandbox/prepare-server.ts";
import { useFakeTools } from "../../../support/fake-tools.ts";

const soon = () => AbortSignal.timeout(50_000);

/** Lines of a script that plays Python: tells its version, and its pip "installs" by writing its arguments down. */
const fakePython = (version: string, ...duringInstall: readonly string[]) => [
  `case "$*" in -c*) echo "${version} $0"; exit;; "-m pip --version") exit;; esac`,
  `echo install >> "$CALLS"`,
  `echo "Collecting one"`,
  `all="$*"`,
  `while [ "$1" != --target ]; do shift; done`,
  `mkdir "$2/bin"`,
  ...duringInstall,
  `echo "$all" > "$2/bin/opensandbox-server"`,
];

describe("preparing opensandbox-server", () => {
  const tools = useFakeTools();
  const prepare = async (more: NodeJS.ProcessEnv = {}) =>
    await prepareOpenSandbox({ environment: { ...tools.environment, ...more } }, soon());
  const messageOf = async (more: NodeJS.ProcessEnv = {}) =>
    await prepare(more).then(
      () => assert.fail("it was prepared"),
      (error: unknown) => describeError(error),
    );

  it("takes what the environment names, and asks no Python", async () => {
    const program = await tools.script("mine", "exit 0");
    for (const value of [program, "mine"]) {
      const peer = await prepare({ OPENSANDBOX_SERVER_BINARY: value });
      assert.deepEqual([peer.program, peer.args, peer.source], [program, [], "environment"]);
    }
    assert.match(
      await messageOf({ OPENSANDBOX_SERVER_BINARY: "/nowhere/server" }),
      /^OPENSANDBOX_SERVER_BINARY=\/nowhere\/server is not usable/,
    );
  });

  it("says what to install or to set when there is no Python, an old one, or one without pip", async () => {
    const remedy = /install Python 3\.10 or newer with pip .* or set OPENSANDBOX_SERVER_BINARY/;
    const none = await messageOf({ PATH: tools.bin });
    assert.match(none, /python3 is not on PATH/);
    assert.match(none, remedy);
    await tools.script("python3", ...fakePython("3.9"));
    assert.match(await messageOf(), /python3 is Python 3\.9: install/);
    await tools.script(
      "python3",
      'case "$1" in -c) echo "3.12 $0";; *) echo "No module named pip" >&2; exit 1;; esac',
    );
    const withoutPip = await messageOf();
    assert.match(withoutPip, /python3 has no pip: install.*No module named pip/s);
    assert.match((await openSandboxObstacle(tools.environment, soon())) ?? "none", /has no pip/);
  });

  it("leaves nothing of an install that failed, and shows what pip said", async () => {
    await tools.script("python3", ...fakePython("3.12", "echo ERROR: no such digest >&2", "exit 1"));
    assert.equal(await openSandboxObstacle(tools.environment, soon()), undefined);
    const message = await messageOf();
    assert.match(message, /opensandbox-server 1\.1\.1 cannot be installed .*ERROR: no such digest/s);
    assert.deepEqual(await readdir(tools.cache), []);
  });

  it("installs once for all that want it, in exact versions, and then finds it in the cache", async () => {
    const python = await tools.script("python3", ...fakePython("3.12"));
    const before = (await tools.calls()).length;
    const peers = await Promise.all([prepare(), prepare(), prepare()]);
    assert.equal((await tools.calls()).length, before + 1);
    assert.deepEqual(peers.map(({ source }) => source).toSorted(), ["built", "cache", "cache"]);
    const [first] = peers;
    assert.ok(first !== undefined);
    const script = first.args.at(-1) ?? "";
    assert.equal(first.program, python);
    assert.match(script, /opensandbox-server-1\.1\.1-[0-9a-f]{8}-python3\.12-/);
    assert.equal(first.environment["PYTHONPATH"], join(script, "..", ".."));
    assert.match(await readFile(script, "utf8"), /install --require-hashes --no-deps --only-binary :all: /);
    assert.equal((await prepare()).source, "cache");
  });

  it("installs anew for another Python", async () => {
    await tools.script("python3", ...fakePython("3.13"));
    const { source, args } = await prepare();
    assert.equal(source, "built");
    assert.match(args.at(-1) ?? "", /-python3\.13-/);
  });
});

describe("the requirements of opensandbox-server", () => {
  it("name a digest for each package, and no index", async () => {
    const file = join(import.meta.dirname, "../../../../scripts/peers/opensandbox/requirements.txt");
    const text = (await readFile(file, "utf8")).replaceAll("\\\n", "");
    const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
    assert.ok(lines.length > 50, `${lines.length} packages`);
    for (const line of lines) assert.match(line, /^[\w.-]+==[\w.]+ .*--hash=sha256:[0-9a-f]{64}/);
  });
});
