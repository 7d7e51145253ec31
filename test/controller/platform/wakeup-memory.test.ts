import assert from "node:assert/strict";
import { describe, it } from "mocha";
import type { Clock } from "../../../controller/platform/clock.ts";
import { createWakeup, listenForAny } from "../../../controller/platform/wakeup.ts";
import { createFetchTurns } from "../../../controller/scheduler/fetch-turns.ts";
import { heapGrowth } from "../../support/heap-growth.ts";

const rounds = 5_000;
/** Any object that is left behind takes more. */
const nothingBytes = 100;

/** Time that passes at once. */
const hurriedClock: Clock = {
  now: () => 0,
  sleep: () => new Promise((resolve) => void setImmediate(resolve)),
};

describe("what an idle controller waits for", () => {
  it("takes no more memory the longer nothing happens", async () => {
    const { signal } = new AbortController();
    const quiet = createWakeup();
    const grown = await heapGrowth(rounds, async () => {
      using woken = listenForAny(
        [(either) => quiet.next(either), (either) => hurriedClock.sleep(5_000, either)],
        signal,
      );
      await woken.first();
    });
    assert.ok(grown < nothingBytes, `${grown} bytes are left of each wait`);
  });

  it("takes no more memory with each look for a task", async () => {
    const { signal } = new AbortController();
    const turns = createFetchTurns(hurriedClock);
    const grown = await heapGrowth(rounds, () => turns.rest(1_000, signal));
    assert.ok(grown < nothingBytes, `${grown} bytes are left of each look`);
  });
});
