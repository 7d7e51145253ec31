import assert from "node:assert/strict";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "mocha";
import type { ServerProcess } from "../../../scripts/peers/server-process.ts";
import { startServer } from "../../../scripts/peers/server-process.ts";
import { useFakeTools } from "../../support/fake-tools.ts";

const soon = () => AbortSignal.timeout(50_000);
const longMs = 15_000;

describe("a server process", () => {
  const tools = useFakeTools();
  const logFile = () => join(tools.bin, "..", "server.log");
  const start = async (...lines: readonly string[]): Promise<ServerProcess> => {
    const program = await tools.script("server", ...lines);
    const folder = tools.bin;
    const { environment } = tools;
    return await startServer({ name: "server", program, args: [], folder, environment, logFile: logFile() });
  };

  it("is ready when a line says so, also one that came before anybody asked", async () => {
    const server = await start("echo port 4222 >&2; echo ready; exec sleep 1000");
    try {
      assert.equal((await server.line(/^ready/, longMs, soon()))[0], "ready");
      assert.equal((await server.line(/port (\d+)/, longMs, soon()))[1], "4222");
    } finally {
      await server.stop();
    }
    assert.equal(await server.exited, "SIGTERM");
    await server.stop();
  });

  it("keeps its log from other users, jobs among them", async () => {
    const server = await start("echo ready; exec sleep 1000");
    await server.stop();
    assert.equal((await stat(logFile())).mode & 0o777, 0o600);
  });

  it("tells the end of its log when it ends before it is ready", async () => {
    const server = await start("echo one; echo address already in use >&2; exit 3");
    await assert.rejects(
      server.line(/^ready/, longMs, soon()),
      /server ended with exit code 3.*address already in use/s,
    );
    assert.match(await readFile(logFile(), "utf8"), /address already in use/);
  });

  it("is not waited for beyond the deadline, nor after an abort", async () => {
    const server = await start("exec sleep 1000");
    try {
      await assert.rejects(server.line(/^ready/, 10, soon()), /the start of server took longer than 0.01 s/);
      const gone = AbortSignal.abort(new Error("no longer wanted"));
      await assert.rejects(server.line(/^ready/, longMs, gone), /no longer wanted/);
    } finally {
      await server.stop();
    }
  });

  it("is killed when it does not hear SIGTERM, with what it started", async () => {
    const open = await tools.pipe("open");
    const server = await start(`trap '' TERM; exec 9> ${open}; sleep 1000 & echo deaf; wait`);
    const ended = readFile(open);
    await server.line(/deaf/, longMs, soon());
    await server.stop(10);
    assert.equal(await server.exited, "SIGKILL");
    await ended;
  });

  it("hears the end also while it is paused", async () => {
    const server = await start("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done");
    await server.line(/^ready/, longMs, soon());
    server.signal("SIGSTOP");
    await server.stop();
    assert.equal(await server.exited, "exit code 0");
  });

  it("cannot be started from a program that is not there", async () => {
    const options = { name: "server", args: [], folder: tools.bin, environment: tools.environment };
    await assert.rejects(
      startServer({ ...options, program: "/nowhere/server", logFile: logFile() }),
      /cannot start server \(\/nowhere\/server\)/,
    );
    const program = await tools.script("server", "exit 0");
    await assert.rejects(startServer({ ...options, program, logFile: "/nowhere/server.log" }), /ENOENT/);
  });
});
