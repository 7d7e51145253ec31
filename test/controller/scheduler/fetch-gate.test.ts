import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { createFetchGate } from "../../../controller/scheduler/fetch-gate.ts";
import { settle } from "../../fakes/fake-clock.ts";

describe("the gate between fetches and declarations", () => {
  const never = new AbortController().signal;

  it("lets fetches run side by side", async () => {
    const gate = createFetchGate();
    const both = Promise.withResolvers<void>();
    let running = 0;
    const fetch = () =>
      gate.fetch(async () => {
        if (++running === 2) both.resolve();
        await both.promise;
      }, never);
    await Promise.all([fetch(), fetch()]);
  });

  it("makes a declaration wait for the fetches under way, and new fetches for the declaration", async () => {
    const gate = createFetchGate();
    const order: string[] = [];
    const fetching = Promise.withResolvers<void>();
    const first = gate.fetch(async () => {
      await fetching.promise;
      order.push("first fetch");
    }, never);
    const declaration = gate.declare(async () => {
      await Promise.resolve();
      order.push("declaration");
    }, never);
    const second = gate.fetch(async () => {
      await Promise.resolve();
      order.push("second fetch");
    }, never);
    await settle();
    assert.deepEqual(order, []);
    fetching.resolve();
    await Promise.all([first, declaration, second]);
    assert.deepEqual(order, ["first fetch", "declaration", "second fetch"]);
  });

  it("goes on after a declaration that failed", async () => {
    const gate = createFetchGate();
    await assert.rejects(
      gate.declare(() => Promise.reject(new Error("away")), never),
      { message: "away" },
    );
    assert.equal(await gate.fetch(() => Promise.resolve("task"), never), "task");
  });

  it("stops waiting with the reason of the signal", async () => {
    const gate = createFetchGate();
    const stop = new AbortController();
    const hangs = Promise.withResolvers<void>();
    const first = gate.fetch(() => hangs.promise, never);
    const declaration = gate.declare(() => Promise.resolve(), stop.signal);
    const second = gate.fetch(() => Promise.resolve(), stop.signal);
    stop.abort(new Error("SIGTERM"));
    await assert.rejects(declaration, { message: "SIGTERM" });
    await assert.rejects(second, { message: "SIGTERM" });
    hangs.resolve();
    await first;
  });
});
