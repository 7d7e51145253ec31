import assert from "node:assert/strict";
import { beforeEach, describe, it } from "mocha";
import type { Executor, ExecutorState } from "../../../controller/backends/backend.ts";
import { type AttemptHistory, createAttemptHistory } from "../../../controller/worker/attempt-history.ts";
import { createFakeClock, type FakeClock } from "../../fakes/fake-clock.ts";
import { anExecutorMetadata } from "../../support/builders.ts";

const times = { startMs: 100, pendingMs: 600 };
const id = "gitea-task-42";

describe("the history of attempts", () => {
  let clock: FakeClock;
  let history: AttemptHistory;
  beforeEach(() => {
    clock = createFakeClock();
    history = createAttemptHistory(times, clock);
  });
  const executor = (name: string, state: ExecutorState): Executor => ({
    name,
    state,
    metadata: anExecutorMetadata(),
    createdAt: clock.now(),
  });
  const running = (name: string) => executor(name, { phase: "running" });

  it("takes a missing executor for lost only if it was there", () => {
    assert.equal(history.lost(id, "first", undefined), undefined);
    history.seen(id, running("first"));
    assert.equal(history.lost(id, "first", undefined), "it is gone");
    assert.equal(history.lost(id, "second", undefined), undefined, "that one was never there");
    assert.equal(history.lost("gitea-task-43", "first", undefined), undefined);
  });

  it("says why the backend refused, of that executor only", () => {
    history.refused(id, "first", "no such image");
    assert.equal(history.lost(id, "first", undefined), "no such image");
    assert.equal(history.lost(id, "second", undefined), undefined);
  });

  it("says why an executor ended", () => {
    assert.equal(
      history.lost(id, "first", executor("first", { phase: "ended", reason: "out of memory" })),
      "out of memory",
    );
  });

  it("counts the time from when an executor was first seen to run, for each anew", async () => {
    history.seen(id, running("first"));
    await clock.step(99);
    assert.equal(history.lost(id, "first", running("first")), undefined);
    await clock.step(1);
    assert.equal(history.lost(id, "first", running("first")), "it did not ask for its job in time");
    assert.equal(history.lost(id, "second", running("second")), undefined);
  });

  it("remembers nothing of assignments that are not known any more", () => {
    history.seen(id, running("first"));
    history.keep((known) => known === id);
    assert.equal(history.lost(id, "first", undefined), "it is gone");
    history.keep(() => false);
    assert.equal(history.lost(id, "first", undefined), undefined);
  });
});
