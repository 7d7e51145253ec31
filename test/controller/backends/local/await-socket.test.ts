import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, it } from "mocha";
import { awaitSocket } from "../../../../controller/backends/local/await-socket.ts";
import { createFakeClock, settle } from "../../../fakes/fake-clock.ts";

describe("waiting for a socket", () => {
  let folder: string;
  let servers: Server[];
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), "sock-"));
    servers = [];
  });
  afterEach(async () => {
    for (const server of servers) server.close();
    await rm(folder, { recursive: true, force: true });
  });
  const listen = async (file: string) => {
    const server = createServer().listen(file);
    servers.push(server);
    await once(server, "listening");
  };

  it("is over at once when there is one", async () => {
    const file = path.join(folder, "s");
    await listen(file);
    const clock = createFakeClock();
    assert.equal(await awaitSocket(file, 10_000, clock, new AbortController().signal), true);
    assert.deepEqual(clock.pending(), []);
  });

  it("is over as soon as one appears, also in folders that were not there", async () => {
    const file = path.join(folder, "a/b/s");
    const clock = createFakeClock();
    const waiting = awaitSocket(file, 10_000, clock, new AbortController().signal);
    await clock.waiting();
    for (const part of ["a", "a/b"]) {
      await settle();
      await mkdir(path.join(folder, part));
    }
    await listen(file);
    assert.equal(await waiting, true);
    assert.deepEqual(clock.pending(), []);
  });

  it("does not take a file for a socket, and gives up when the time is over", async () => {
    const file = path.join(folder, "s");
    const clock = createFakeClock();
    const waiting = awaitSocket(file, 10_000, clock, new AbortController().signal);
    await clock.waiting();
    await writeFile(file, "");
    await clock.step(9999);
    assert.deepEqual(clock.pending(), [1]);
    await clock.step(1);
    assert.equal(await waiting, false);
  });

  it("stops when it is aborted", async () => {
    const stop = new AbortController();
    const clock = createFakeClock();
    const waiting = awaitSocket(path.join(folder, "s"), 10_000, clock, stop.signal);
    await clock.waiting();
    const reason = new Error("shutting down");
    stop.abort(reason);
    await assert.rejects(waiting, reason);
    assert.deepEqual(clock.pending(), []);
  });
});
