import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { createFetchTurns } from "../../../controller/scheduler/fetch-turns.ts";
import { createFakeClock, settle } from "../../fakes/fake-clock.ts";

function setUp() {
  const clock = createFakeClock();
  const turns = createFetchTurns(clock);
  const stop = new AbortController();
  const awake: string[] = [];
  const rest = (name: string) => {
    turns.rest(1_000, stop.signal).then(
      () => awake.push(name),
      () => awake.push(`${name} stopped`),
    );
  };
  return { clock, turns, stop, awake, rest };
}

describe("turns of fetchers", () => {
  it("let one of those that rest go on after the interval", async () => {
    const { clock, awake, rest } = setUp();
    for (const name of ["a", "b", "c"]) rest(name);
    await clock.step(1_000);
    assert.deepEqual(awake, ["a"]);
    rest("a");
    await clock.step(1_000);
    assert.deepEqual(awake, ["a", "a"]);
  });

  it("let all go on at once when there may be more, and leave no timer behind", async () => {
    const { clock, turns, awake, rest } = setUp();
    for (const name of ["a", "b", "c"]) rest(name);
    turns.wake();
    await settle();
    assert.deepEqual(awake.toSorted(), ["a", "b", "c"]);
    assert.deepEqual(clock.pending(), []);
  });

  it("end for all at a stop", async () => {
    const { clock, stop, awake, rest } = setUp();
    for (const name of ["a", "b"]) rest(name);
    stop.abort(new Error("stop"));
    await settle();
    assert.deepEqual(awake.toSorted(), ["a stopped", "b stopped"]);
    assert.deepEqual(clock.pending(), []);
  });
});
