import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { openBackends, type BackendLoad } from "../../../controller/scheduler/backlog.ts";

const minutes = 60_000;

function aLoad(load: Partial<BackendLoad>): BackendLoad {
  return { kind: "pod", waiting: 0, oldestMs: 0, backlog: 4, ...load };
}

describe("the backlog bound", () => {
  const cases: readonly (readonly [string, Partial<BackendLoad>, boolean])[] = [
    ["nothing waits", {}, true],
    ["one less than allowed waits", { waiting: 3 }, true],
    ["as many as allowed wait", { waiting: 4 }, false],
    ["more than allowed wait, because fetches were under way", { waiting: 7 }, false],
    ["the oldest has waited for just under ten minutes", { waiting: 1, oldestMs: 10 * minutes - 1 }, true],
    ["the oldest has waited for ten minutes", { waiting: 1, oldestMs: 10 * minutes }, false],
  ];
  for (const [when, load, open] of cases)
    it(`${open ? "takes more" : "takes no more"} when ${when}`, () => {
      assert.deepEqual(openBackends([aLoad(load)]), open ? ["pod"] : []);
    });

  it("never lets one full backend stop the other", () => {
    const loads = [aLoad({ waiting: 9 }), aLoad({ kind: "vm" })];
    assert.deepEqual(openBackends(loads), ["vm"]);
  });
});
