import assert from "node:assert/strict";
import type { ChildProcess } from "node:child_process";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, readdir, writeFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { describe, it } from "mocha";
import { describeError } from "../../../controller/platform/errors.ts";
import { readPin } from "../../../scripts/peers/pin.ts";
import { preparePeer } from "../../../scripts/peers/prepare-peer.ts";
import { fakeGo, useFakeTools } from "../../support/fake-tools.ts";

const soon = () => AbortSignal.timeout(50_000);

/** `npm run peers -- nats-server` as a process of its own. */
function runPeers(environment: NodeJS.ProcessEnv): ChildProcess {
  const script = `${import.meta.dirname}/../../../scripts/peers.ts`;
  return spawn(process.execPath, [script, "nats-server"], {
    env: environment,
    stdio: ["ignore", "pipe", "pipe"],
  });
}

/** Reads lines until one matches; the rest is read and dropped, so that the writer never waits. */
async function untilLine(child: ChildProcess, pattern: RegExp): Promise<string> {
  assert.ok(child.stderr !== null);
  const lines = createInterface({ input: child.stderr });
  const found = Promise.withResolvers<string>();
  const seen: string[] = [];
  lines.on("line", (line) => {
    seen.push(line);
    if (pattern.test(line)) found.resolve(line);
  });
  lines.once("close", () => found.reject(new Error(`no line matches ${pattern}: ${seen.join("\n")}`)));
  return await found.promise;
}

describe("building a peer", () => {
  describe("without a Go that can", () => {
    const tools = useFakeTools();
    const messageOf = async (environment: NodeJS.ProcessEnv) =>
      await preparePeer("nats-server", { environment }, soon()).then(
        () => assert.fail("it was built"),
        (error: unknown) => describeError(error),
      );

    it("says what to install or to set when there is none", async () => {
      const message = await messageOf({ ...tools.environment, PATH: tools.bin });
      assert.match(message, /Go is not on PATH: install Go 1\.\d+.* or set NATS_SERVER_BINARY/);
    });

    it("says the same, and which it found, when it is too old", async () => {
      const go = await tools.script("go", "echo go1.20.14");
      const message = await messageOf(tools.environment);
      assert.ok(message.includes(`${go} is Go 1.20.14: install Go`), message);
    });

    it("shows the end of what Go said when the build fails", async () => {
      await tools.script(
        "go",
        'if [ "$1" = env ]; then echo go1.99; exit; fi',
        "echo no network >&2; exit 1",
      );
      assert.match(await messageOf(tools.environment), /^building nats-server .*exit code 1: no network/);
      assert.deepEqual(await readdir(tools.cache), []);
    });
  });

  describe("whose source embeds a file of a module", () => {
    const tools = useFakeTools();

    it("shows Go that file beside the source, which stays as it is", async () => {
      const seen = `${tools.bin}/overlay.json`;
      await tools.script(
        "go",
        `if [ "$1" = mod ]; then echo '{"Dir":"/modules/provider"}'; exit; fi`,
        `case "$*" in *-overlay*) ;; *) [ "$1" = env ] || exit 1;; esac`,
        `for word; do case "$word" in */overlay.json) cp "$word" '${seen}';; esac; done`,
        ...fakeGo("", ""),
      );
      const { environment } = tools;
      const peer = await preparePeer("pulumi-resource-kubernetes", { environment }, soon());
      assert.equal(peer.source, "built");
      const { folder } = await readPin("pulumi-resource-kubernetes");
      assert.deepEqual(JSON.parse(await readFile(seen, "utf8")), {
        Replace: {
          [`${folder}/schema.json`]: "/modules/provider/cmd/pulumi-resource-kubernetes/schema.json",
        },
      });
      assert.ok(!(await readdir(folder)).includes("schema.json"));
    });
  });

  describe("interrupted", () => {
    const tools = useFakeTools();

    it("leaves nothing behind, neither files nor processes", async () => {
      // `close` of Go's output waits for the background process too: were it left, this would not end.
      await tools.script("go", ...fakeGo("0.0.0", "sleep 1000 & echo compiling >&2; wait"));
      const interrupt = new AbortController();
      const report = {
        note: () => undefined,
        begin: () => ({ detail: () => interrupt.abort(new Error("interrupted")), end: () => undefined }),
      };
      const { environment } = tools;
      await assert.rejects(
        preparePeer("nats-server", { environment, report }, interrupt.signal),
        /^Error: interrupted$/,
      );
      assert.deepEqual(await readdir(tools.cache), []);
    });
  });

  describe("by a process that gets a signal", () => {
    const tools = useFakeTools();

    it("ends in order on SIGTERM", async () => {
      const begun = await tools.pipe("begun");
      await tools.script("go", ...fakeGo("0.0.0", `echo > ${begun}; sleep 1000`));
      const child = runPeers(tools.environment);
      await readFile(begun);
      child.kill("SIGTERM");
      assert.ok(child.stderr !== null);
      assert.match(await text(child.stderr), /interrupted by SIGTERM/);
      assert.deepEqual(await readdir(tools.cache), []);
    });

    it("takes its Go along when it is killed, and the next one takes over its lock", async () => {
      const begun = await tools.pipe("begun-again");
      const open = await tools.pipe("open");
      await tools.script("go", ...fakeGo("0.0.0", `exec 9> ${open}; echo > ${begun}; sleep 1000`));
      const child = runPeers(tools.environment);
      // Ends when the last process that holds the pipe has ended.
      const ended = readFile(open);
      await readFile(begun);
      child.kill("SIGKILL");
      await once(child, "exit");
      await ended;
      assert.ok((await readdir(tools.cache)).some((name) => name.endsWith(".lock")));

      const { version } = await readPin("nats-server");
      await tools.script("go", ...fakeGo(version, ""));
      const peer = await preparePeer("nats-server", { environment: tools.environment }, soon());
      assert.equal(peer.source, "built");
      assert.equal((await readdir(tools.cache)).length, 1);
    });
  });

  describe("by two processes at once", () => {
    const tools = useFakeTools();

    it("happens once, and the second says whom it waits for", async () => {
      const { version } = await readPin("nats-server");
      const begun = await tools.pipe("begun");
      const go = await tools.pipe("go-on");
      await tools.script("go", ...fakeGo(version, `echo > ${begun}; cat ${go}`));
      const first = runPeers(tools.environment);
      const firstOutput = first.stdout === null ? "" : text(first.stdout);
      await readFile(begun);
      const second = runPeers(tools.environment);
      const secondOutput = second.stdout === null ? "" : text(second.stdout);
      assert.match(
        await untilLine(second, /waiting/),
        new RegExp(`waiting for process ${first.pid}, which builds it`),
      );
      await writeFile(go, "");
      assert.match(await firstOutput, /nats-server .* \(built\)/);
      assert.match(await secondOutput, /nats-server .* \(cache\)/);
      assert.deepEqual(await tools.calls(), ["build"]);
    });
  });
});
