import assert from "node:assert/strict";
import { beforeEach, describe, it } from "mocha";
import { failureFor } from "../../../controller/assignment/failure.ts";
import type { Executor, ExecutorState } from "../../../controller/backends/backend.ts";
import { type AttemptHistory, createAttemptHistory } from "../../../controller/worker/attempt-history.ts";
import { createFakeClock, type FakeClock } from "../../fakes/fake-clock.ts";
import { anExecutorMetadata } from "../../support/builders.ts";

const id = "gitea-task-42";
const down = failureFor("backend_down", "no answer");

describe("the history of attempts", () => {
  let clock: FakeClock;
  let history: AttemptHistory;
  beforeEach(() => {
    clock = createFakeClock();
    history = createAttemptHistory({ callMs: 100, absentMs: 30 }, clock);
  });
  const executor = (name: string, state: ExecutorState): Executor => ({
    name,
    state,
    metadata: anExecutorMetadata(),
    createdAt: clock.now(),
  });
  const running = (name: string) => executor(name, { phase: "running" });

  it("takes a missing executor for missing only if it was there, since when it was not", async () => {
    assert.equal(history.saw(id, "first", undefined).missingSince, undefined);
    history.saw(id, "first", running("first"));
    const since = clock.now();
    assert.equal(history.saw(id, "first", undefined).missingSince, since);
    await clock.step(10);
    assert.equal(history.saw(id, "first", undefined).missingSince, since);
    assert.equal(history.saw(id, "second", undefined).missingSince, undefined, "that one was never there");
    assert.equal(history.saw("gitea-task-43", "first", undefined).missingSince, undefined);
  });

  it("forgets that an executor was missing when it is there again", async () => {
    history.saw(id, "first", running("first"));
    history.saw(id, "first", undefined);
    await clock.step(10);
    assert.equal(history.saw(id, "first", running("first")).missingSince, undefined);
    await clock.step(10);
    assert.equal(history.saw(id, "first", undefined).missingSince, clock.now());
  });

  it("counts from the start, anew from when it runs, and not while it waits for room", async () => {
    const made = executor("first", { phase: "starting" });
    const began = clock.now();
    await clock.step(10);
    assert.equal(history.saw(id, "first", made).countedFrom, began);
    await clock.step(10);
    const waiting = failureFor("unschedulable", "");
    assert.equal(
      history.saw(id, "first", { ...made, state: { phase: "starting", waiting } }).countedFrom,
      began + 20,
    );
    await clock.step(10);
    assert.equal(history.saw(id, "first", made).countedFrom, began + 20);
    await clock.step(10);
    assert.equal(history.saw(id, "first", { ...made, state: { phase: "running" } }).countedFrom, began + 40);
    await clock.step(10);
    assert.equal(history.saw(id, "first", { ...made, state: { phase: "running" } }).countedFrom, began + 40);
  });

  it("remembers what a call for it failed with, until it is there", () => {
    history.failed(id, "first", down, false);
    assert.deepEqual(history.saw(id, "first", undefined).failure, down);
    assert.equal(history.saw(id, "second", undefined).failure, undefined);
    history.failed(id, "first", down, false);
    assert.equal(history.saw(id, "first", running("first")).failure, undefined);
    const identity = failureFor("identity", "no entry");
    history.failed(id, "first", identity, false);
    assert.deepEqual(history.saw(id, "first", running("first")).failure, identity);
  });

  it("expects an executor of a create with an open outcome for twice the time of a call", async () => {
    history.failed(id, "first", down, false);
    assert.equal(history.mayBe(id, undefined), false);
    history.failed(id, "first", down, true);
    await clock.step(199);
    assert.equal(history.mayBe(id, undefined), true);
    await clock.step(1);
    assert.equal(history.mayBe(id, undefined), false);
  });

  it("counts with an executor that was there, until lists have lacked it for long", async () => {
    history.saw(id, "first", running("first"));
    assert.equal(history.mayBe(id, "first"), true);
    assert.equal(history.mayBe(id, "second"), false, "that one was never there");
    assert.equal(history.mayBe(id, undefined), false, "its attempt is lost");
    history.saw(id, "first", undefined);
    await clock.step(29);
    assert.equal(history.mayBe(id, "first"), true);
    await clock.step(1);
    assert.equal(history.mayBe(id, "first"), false);
  });

  it("remembers nothing of assignments that are not known any more", () => {
    history.failed(id, "first", down, true);
    history.keep((known) => known === id);
    assert.equal(history.mayBe(id, undefined), true);
    history.keep(() => false);
    assert.equal(history.mayBe(id, undefined), false);
  });
});
