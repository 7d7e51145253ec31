import assert from "node:assert/strict";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "mocha";
import { AckPolicy, connect } from "nats";
import { startNats } from "../../../scripts/peers/start-nats.ts";
import { useNats } from "../../support/nats.ts";

describe("the real nats-server", () => {
  const nats = useNats();
  const open = () => connect({ servers: nats.url, user: nats.user, pass: nats.password, reconnect: false });

  it("keeps a stream's messages over a crash", async () => {
    const before = await open();
    const manager = await before.jetstreamManager();
    await manager.streams.add({ name: "KEPT", subjects: ["kept.>"] });
    await before.jetstream().publish("kept.one", "1");
    await before.close();
    await nats.kill();
    await nats.start();
    const after = await open();
    try {
      const again = await after.jetstreamManager();
      assert.equal((await again.streams.info("KEPT")).state.messages, 1);
      await again.consumers.add("KEPT", { durable_name: "reader", ack_policy: AckPolicy.Explicit });
      const consumer = await after.jetstream().consumers.get("KEPT", "reader");
      assert.equal((await consumer.next({ expires: 5_000 }))?.string(), "1");
    } finally {
      await after.close();
    }
  });

  it("starts with its own answer again after its disk is lost, at the same address", async () => {
    const { url } = nats;
    await nats.wipe();
    assert.equal(nats.url, url);
    const connection = await open();
    try {
      const manager = await connection.jetstreamManager();
      await assert.rejects(manager.streams.info("KEPT"), /stream not found/);
    } finally {
      await connection.close();
    }
  });

  it("takes messages of 8 MiB", async () => {
    const connection = await open();
    assert.equal(connection.info?.max_payload, 8 * 1024 * 1024);
    await connection.close();
  });

  it("lets nobody in without the password", async () => {
    await assert.rejects(connect({ servers: nats.url, reconnect: false }), /authorization violation/i);
  });
});

describe("starting a nats-server", () => {
  let folder = "";
  const soon = () => AbortSignal.timeout(50_000);
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "start-nats-"));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  it("leaves nothing behind once it is stopped, and keeps its password to its user", async () => {
    const nats = await startNats({ folder }, soon());
    assert.equal((await stat(nats.passwordFile)).mode & 0o777, 0o600);
    assert.equal((await stat(join(folder, "nats-server.conf"))).mode & 0o777, 0o600);
    await nats.stop();
    await nats.stop();
    assert.throws(() => process.kill(nats.pid, 0), { code: "ESRCH" });
    await assert.rejects(connect({ servers: nats.url, reconnect: false }), /CONNECTION_REFUSED/);
  });

  it("shows the end of its log when it does not start", async () => {
    const start = startNats({ folder, extraConfiguration: "no_such_option: 1" }, soon());
    await assert.rejects(start, /nats-server ended with exit code 1.*unknown field "no_such_option"/s);
  });

  it("gives up when it is aborted", async () => {
    const gone = AbortSignal.abort(new Error("no longer wanted"));
    await assert.rejects(startNats({ folder }, gone), /no longer wanted/);
  });
});
