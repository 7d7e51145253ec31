import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { createKeyedQueue } from "../../../controller/platform/keyed-queue.ts";

describe("a keyed queue", () => {
  it("runs works of one key one after the other and of two keys side by side", async () => {
    const queue = createKeyedQueue();
    const gate = Promise.withResolvers<void>();
    const order: string[] = [];
    const first = queue.run("a", async () => {
      await gate.promise;
      order.push("a1");
    });
    const second = queue.run("a", async () => {
      await Promise.resolve();
      order.push("a2");
    });
    await queue.run("b", async () => {
      await Promise.resolve();
      order.push("b1");
    });
    assert.deepEqual(order, ["b1"]);
    gate.resolve();
    await Promise.all([first, second]);
    assert.deepEqual(order, ["b1", "a1", "a2"]);
  });

  it("goes on after a work that failed, and forgets keys that have nothing to do", async () => {
    const queue = createKeyedQueue();
    const failing = queue.run("a", () => Promise.reject(new Error("no")));
    const next = queue.run("a", () => Promise.resolve("yes"));
    await assert.rejects(failing, { message: "no" });
    assert.equal(await next, "yes");
    assert.equal(queue.size, 0);
  });
});
