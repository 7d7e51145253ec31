import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { createLogLimit } from "../../../controller/platform/log-limit.ts";

describe("a limit on lines that others cause", () => {
  const limit = (maxKeys = 10) => {
    let now = 0;
    const limited = createLogLimit({ everyMs: 1_000, maxKeys }, { now: () => now });
    return { due: (key: string) => limited.due(key), at: (time: number) => void (now = time) };
  };

  it("lets the first of each key through, and then one in each interval that says how many were left out", () => {
    const { due, at } = limit();
    assert.deepEqual(due("a"), { leftOut: 0 });
    assert.deepEqual(due("b"), { leftOut: 0 });
    at(999);
    assert.equal(due("a"), undefined);
    assert.equal(due("a"), undefined);
    at(1_000);
    assert.deepEqual(due("a"), { leftOut: 2 });
    assert.equal(due("a"), undefined);
    at(5_000);
    assert.deepEqual(due("a"), { leftOut: 1 });
    assert.deepEqual(due("b"), { leftOut: 0 });
  });

  it("remembers so many keys only: further ones share one until the first are old", () => {
    const { due, at } = limit(2);
    for (const key of ["a", "b", "c"]) assert.deepEqual(due(key), { leftOut: 0 });
    for (const key of ["d", "e"]) assert.equal(due(key), undefined);
    assert.equal(due("a"), undefined);
    at(1_000);
    assert.deepEqual(due("f"), { leftOut: 0 });
    assert.deepEqual(due("g"), { leftOut: 0 });
    assert.deepEqual(due("h"), { leftOut: 0 });
    assert.equal(due("i"), undefined);
  });

  it("knows a key that was told again longer than one that was not", () => {
    const { due, at } = limit(2);
    due("a");
    at(500);
    due("b");
    at(1_000);
    due("a");
    at(1_600);
    assert.deepEqual(due("c"), { leftOut: 0 });
    assert.equal(due("a"), undefined);
  });
});
