import assert from "node:assert/strict";
import { describe, it } from "mocha";
import type { Delivery } from "../../../controller/worker/delivery.ts";
import { renewable } from "../../../controller/worker/renewable-delivery.ts";
import { aContent } from "../../fakes/fake-queue.ts";

function aDelivery(calls: string[], deliveryCount: number, sequence = 1): Delivery {
  const note = (what: string) => calls.push(`${deliveryCount} ${what}`);
  return {
    sequence,
    deliveryCount,
    content: aContent(),
    inProgress: () => void note("in progress"),
    retryLater: (ms) => void note(`again ${ms}`),
    reject: (reason) => void note(reason),
    acknowledge: async () => note("acknowledged") > 0,
  };
}

describe("a delivery that comes again while it is worked on", () => {
  const signal = new AbortController().signal;

  it("is answered by its newest token only", async () => {
    const calls: string[] = [];
    const mine = renewable(aDelivery(calls, 1), () => undefined);
    mine.delivery.inProgress();
    assert.equal(mine.renew(aDelivery(calls, 2)), true);
    assert.equal(mine.delivery.deliveryCount, 2);
    mine.delivery.inProgress();
    mine.delivery.reject("no");
    assert.equal(await mine.delivery.acknowledge(signal), true);
    mine.delivery.retryLater(7);
    assert.deepEqual(calls, ["1 in progress", "2 in progress", "2 no", "2 acknowledged", "2 again 7"]);
  });

  it("is not taken for another message of the same assignment", () => {
    const calls: string[] = [];
    const mine = renewable(aDelivery(calls, 1), () => undefined);
    assert.equal(mine.renew(aDelivery(calls, 5, 2)), false);
    mine.delivery.inProgress();
    assert.deepEqual(calls, ["1 in progress"]);
  });

  it("tells when it is handed back", () => {
    const told: number[] = [];
    renewable(aDelivery([], 1), (ms) => told.push(ms)).delivery.retryLater(15);
    assert.deepEqual(told, [15]);
  });
});
