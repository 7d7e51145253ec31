import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { together } from "../../../../scripts/peers/cluster/together.ts";

const { signal } = new AbortController();

/** Ends when it is aborted, and some time after that. */
async function untilAborted(inner: AbortSignal, onEnd: () => void): Promise<void> {
  await new Promise((resolve) => inner.addEventListener("abort", resolve, { once: true }));
  await Promise.resolve();
  onEnd();
}

describe("work side by side", () => {
  it("has all ended before the first failure is told", async () => {
    let ended = false;
    const failing = async () => {
      throw new Error("the first");
    };
    const other = async (inner: AbortSignal) => {
      await untilAborted(inner, () => (ended = true));
      throw new Error("the second");
    };
    await assert.rejects(together(signal, other, failing), /^Error: the first$/);
    assert.ok(ended);
  });

  it("hears of an abort from outside", async () => {
    const outside = new AbortController();
    let ended = false;
    const work = together(outside.signal, (inner) => untilAborted(inner, () => (ended = true)));
    outside.abort();
    await work;
    assert.ok(ended);
  });
});
