import assert from "node:assert/strict";
import { afterEach, describe, it } from "mocha";
import { defaultTimes } from "../../../controller/assignment/times.ts";
import { aContent } from "../../fakes/fake-queue.ts";
import { createLaneUnderTest, type LaneUnderTest, never } from "../../support/lane-under-test.ts";

const content = aContent();
const { assignment } = content;

describe("waiting for a claim", () => {
  const open: LaneUnderTest[] = [];
  afterEach(async () => {
    for (const one of open.splice(0)) await one.stop();
  });
  /** A lane whose executor is there and has not claimed. */
  async function waiting(): Promise<LaneUnderTest> {
    const one = createLaneUnderTest();
    open.push(one);
    one.run("worker");
    one.queue.publish(content);
    await one.clock.step(0);
    assert.equal(one.phase(assignment), "starting 1");
    return one;
  }
  const lists = ({ backend }: LaneUnderTest) => backend.called("list").length;

  it("does not ask the backend for each change of another job", async () => {
    const one = await waiting();
    const other = aContent({ taskId: 43n });
    await one.assignments.offer({ ...other, sequence: 2 }, never);
    const before = lists(one);
    for (let change = 1; change <= 20; change++)
      await one.apply(other.assignment, { type: "queued_again", sequence: 2 + change });
    assert.equal(lists(one), before);
  });

  it("asks the backend when an executor has moved, also while it is being asked", async () => {
    const one = await waiting();
    const name = one.executor(assignment);
    const answer = one.backend.hold("list");
    one.backend.start(name);
    await one.clock.step(0);
    one.backend.end(name, "exit code 1");
    answer();
    await one.clock.step(0);
    assert.equal(one.phase(assignment), "queued");
  });

  it("asks the backend when another job's executor has moved only if it may have been its own", async () => {
    const one = await waiting();
    const before = lists(one);
    for (const listener of one.backend.world.listeners) listener("gitea-task-43-1-0a1b2c3d");
    await one.clock.step(0);
    assert.equal(lists(one), before);
    for (const listener of one.backend.world.listeners) listener();
    await one.clock.step(0);
    assert.ok(lists(one) > before);
  });

  it("sees a claim without asking the backend", async () => {
    const one = await waiting();
    const before = lists(one);
    await one.claim(assignment);
    assert.deepEqual(one.queue.answers(), [{ sequence: 1, word: "acknowledged" }]);
    assert.equal(lists(one), before);
  });

  it("is over after its time, and begins anew", async () => {
    const one = await waiting();
    await one.clock.step(defaultTimes.claimMs);
    assert.ok(one.events().includes("claim_timeout"));
    assert.equal(one.phase(assignment), "starting 1");
  });
});
