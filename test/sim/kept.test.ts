import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { kept } from "./kept.ts";
import { planOfSeed } from "./random-plan.ts";
import { describeViolation } from "./report.ts";
import { simulate } from "./simulate.ts";

describe("a fault that was found once", () => {
  for (const { name, plan } of kept)
    it(`is not there any more: ${name}`, async () => {
      const run = await simulate(plan);
      if (run.violated !== undefined) assert.fail((await describeViolation(run)).join("\n"));
    });
});

describe("the simulation", () => {
  it("runs the same seed alike, with and without a history", async () => {
    for (const seed of [2, 3, 5]) {
      const runs = [];
      for (const keepHistory of [true, false, true])
        runs.push(await simulate(planOfSeed(seed), { keepHistory }));
      const [first, second, third] = runs.map(({ events, tookMs }) => ({ events, tookMs }));
      assert.deepEqual(second, first);
      assert.deepEqual(third, first);
      assert.deepEqual(runs[2]?.history, runs[0]?.history);
      assert.deepEqual(runs[1]?.history, []);
    }
  });

  it("runs different seeds differently", async () => {
    const runs = [];
    for (const seed of [2, 3, 5, 7]) runs.push(await simulate(planOfSeed(seed)));
    assert.equal(new Set(runs.map(({ events }) => events)).size, 4);
  });
});
