import assert from "node:assert/strict";
import { beforeEach, describe, it } from "mocha";
import { createHearing, type Hearing } from "../../../controller/lifecycle/hearing.ts";
import { testStart } from "../../support/builders.ts";

describe("when an executor was heard last", () => {
  let now: number;
  let canHear: boolean;
  let hearing: Hearing;
  beforeEach(() => {
    now = testStart;
    canHear = true;
    hearing = createHearing({ clock: { now: () => now }, canHear: () => canHear });
  });
  /** Time goes by while somebody asks now and then, as the reconciler does. */
  function pass(ms: number): void {
    for (const end = now + ms; now < end;) {
      now = Math.min(end, now + 5_000);
      hearing.heardAt("somebody");
    }
  }

  it("is the time of its last word", () => {
    pass(20_000);
    hearing.heard("a");
    const at = now;
    pass(600_000);
    assert.equal(hearing.heardAt("a"), at);
  });

  it("is never before this controller began to lead", () => {
    pass(600_000);
    assert.equal(hearing.heardAt("never heard"), testStart);
    const successor = createHearing({ clock: { now: () => now } });
    assert.equal(successor.heardAt("never heard"), now);
  });

  it("begins anew after the process stood still: what came meanwhile is not heard yet", () => {
    hearing.heard("a");
    now += 600_000;
    assert.equal(hearing.heardAt("a"), now);
    const at = now;
    pass(30_000);
    assert.equal(hearing.heardAt("a"), at);
  });

  it("goes on while nobody can reach the facade, for that is not the executors' silence", () => {
    hearing.heard("a");
    pass(30_000);
    canHear = false;
    pass(600_000);
    assert.equal(hearing.heardAt("a"), now);
    const at = now;
    canHear = true;
    pass(60_000);
    assert.equal(hearing.heardAt("a"), at);
  });

  it("does not lie ahead after the clock is set back", () => {
    pass(30_000);
    hearing.heard("a");
    now -= 3_600_000;
    assert.equal(hearing.heardAt("a"), now);
    const at = now;
    pass(30_000);
    assert.equal(hearing.heardAt("a"), at);
    assert.equal(hearing.heardAt("b"), at);
  });

  it("is forgotten with its assignment", () => {
    pass(30_000);
    hearing.heard("a");
    hearing.forget("a");
    assert.equal(hearing.heardAt("a"), testStart);
  });
});
