import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { AckPolicy, connect } from "nats";
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

  it("lets nobody in without the password", async () => {
    await assert.rejects(connect({ servers: nats.url, reconnect: false }), /authorization violation/i);
  });
});
