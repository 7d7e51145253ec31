import assert from "node:assert/strict";
import { afterEach, describe, it } from "mocha";
import { defaultTimes } from "../../../controller/assignment/times.ts";
import { BackendError } from "../../../controller/backends/backend.ts";
import { createFakeClock, type FakeClock } from "../../fakes/fake-clock.ts";
import { aContent, createFakeQueue } from "../../fakes/fake-queue.ts";
import { createLaneUnderTest, type LaneUnderTest } from "../../support/lane-under-test.ts";

const content = aContent();
const { assignment } = content;
const hour = 3_600_000;

describe("a clock that is set back", () => {
  const open: LaneUnderTest[] = [];
  afterEach(async () => {
    for (const one of open.splice(0)) await one.stop();
  });
  function started() {
    const steady = createFakeClock();
    let backMs = 0;
    const clock: FakeClock = { ...steady, now: () => steady.now() - backMs };
    // The server's clock is another one.
    const one = createLaneUnderTest({ clock, queue: createFakeQueue(steady) });
    open.push(one);
    one.run("worker");
    one.queue.publish(content);
    return { one, setBack: (ms: number) => void (backMs += ms) };
  }

  it("makes no job wait longer for its next attempt", async () => {
    const { one, setBack } = started();
    await one.clock.step(0);
    one.backend.end(one.executor(assignment), "exit code 1");
    await one.clock.step(1_000);
    assert.equal(one.phase(assignment), "queued");
    setBack(hour);
    await one.clock.step(6 * 60_000);
    assert.equal(one.phase(assignment), "starting 2");
  });

  it("makes no job wait longer for an executor that is gone", async () => {
    const { one, setBack } = started();
    await one.clock.step(0);
    one.backend.vanish(one.executor(assignment));
    await one.clock.step(5_000);
    setBack(hour);
    await one.clock.step(3 * 60_000);
    assert.equal(one.phase(assignment), "starting 2");
  });

  it("makes no job wait longer for a backend that works again", async () => {
    const { one, setBack } = started();
    for (let call = 0; call < 3; call++)
      one.backend.failNext("create", new BackendError("retryable", "no answer"));
    await one.clock.step(2 * defaultTimes.retryMs + 1_000);
    assert.equal(one.worker.circuit().name, "open");
    setBack(hour);
    await one.clock.step(6 * 60_000);
    assert.equal(one.worker.circuit().name, "closed");
    assert.equal(one.phase(assignment), "starting 1");
  });
});
