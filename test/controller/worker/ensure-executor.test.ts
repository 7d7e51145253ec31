import assert from "node:assert/strict";
import { afterEach, describe, it } from "mocha";
import { executorEnvironment } from "../../../controller/assignment/executor-environment.ts";
import { defaultTimes } from "../../../controller/assignment/times.ts";
import { BackendError } from "../../../controller/backends/backend.ts";
import { aContent } from "../../fakes/fake-queue.ts";
import type { Said } from "../../fakes/fake-tasks.ts";
import { anAttempt, anExecutorMetadata } from "../../support/builders.ts";
import {
  createLaneUnderTest,
  type LaneUnderTest,
  type LaneUnderTestOptions,
  never,
} from "../../support/lane-under-test.ts";

const content = aContent();
const { assignment } = content;
const { id, taskId } = assignment;
const retryMs = 15_000;

describe("ensuring an executor", () => {
  const open: LaneUnderTest[] = [];
  afterEach(async () => {
    for (const one of open.splice(0)) await one.stop();
  });
  function started(options: LaneUnderTestOptions = {}): LaneUnderTest {
    const one = createLaneUnderTest(options);
    open.push(one);
    one.run("worker");
    return one;
  }
  /** A lane whose executor is there and has not claimed. */
  async function waiting(): Promise<LaneUnderTest> {
    const one = started();
    one.queue.publish(content);
    await one.clock.step(0);
    assert.equal(one.phase(), "starting 1");
    return one;
  }
  const alive = ({ backend }: LaneUnderTest) =>
    [...backend.world.stored].filter(([, { state }]) => state.phase !== "ended").map(([name]) => name);

  it("replaces an executor that died before the claim, after deleting it", async () => {
    const one = await waiting();
    const first = one.executor(assignment);
    one.backend.end(first, "exited with code 1");
    await one.clock.step(retryMs);
    assert.equal(one.phase(), "starting 2");
    assert.deepEqual(alive(one), [one.executor(assignment)]);
    const order = one.backend.calls.filter(({ method }) => method === "delete" || method === "create");
    assert.deepEqual(
      order.map(({ method, name }) => [method, name]),
      [
        ["create", first],
        ["delete", first],
        ["create", one.executor(assignment)],
      ],
    );
  });

  it("replaces an executor that disappeared before the claim", async () => {
    const one = await waiting();
    one.backend.vanish(one.executor(assignment));
    await one.clock.step(retryMs);
    assert.equal(one.phase(), "starting 2");
  });

  it("asks Gitea before each attempt", async () => {
    const one = await waiting();
    one.backend.end(one.executor(assignment));
    await one.clock.step(retryMs);
    assert.deepEqual(one.tasks.beats, [taskId, taskId]);
  });

  it("fails the task after three executors that died before the claim, with what was seen", async () => {
    const one = await waiting();
    for (const how of ["exited with code 1", "out of memory", "exited with code 3"]) {
      one.backend.end(one.executor(assignment), how);
      await one.clock.step(retryMs);
    }
    assert.deepEqual(one.tasks.ends, [
      {
        taskId,
        result: "failure",
        reason: ["This job never started: 3 executors were tried. The last one: exited with code 3."],
      },
    ]);
    assert.equal(one.phase(), "finished 3");
    assert.equal(one.backend.called("create").length, 3);
    assert.deepEqual(alive(one), []);
    assert.equal(one.queue.size, 0);
    assert.equal(one.events().at(-1), "acked");
    assert.equal(one.events().includes("runner_claimed"), false, "nobody has claimed it");
  });

  it("tells Gitea of the failure until Gitea has it, and starts nothing meanwhile", async () => {
    const one = await waiting();
    for (let attempt = 1; attempt <= 3; attempt++) {
      if (attempt === 3) one.tasks.failNext("reportEnd", new Error("no answer"), { done: true });
      one.backend.end(one.executor(assignment));
      await one.clock.step(retryMs);
    }
    assert.equal(one.phase(), "starting 3");
    await one.clock.step(retryMs);
    assert.equal(one.phase(), "finished 3");
    assert.equal(one.tasks.ends.length, 2);
    assert.equal(one.backend.called("create").length, 3);
  });

  it("burns no attempt while the backend refuses in passing, however long that takes", async () => {
    const one = started();
    for (let i = 0; i < 40; i++)
      one.backend.failNext("create", new BackendError("retryable", "quota exceeded"));
    one.queue.publish(content);
    await one.clock.step(41 * retryMs);
    assert.equal(one.phase(), "starting 1");
    assert.equal(one.backend.world.stored.size, 1);
    assert.deepEqual(one.tasks.ends, []);
    assert.equal(new Set(one.backend.called("create")).size, 1, "it has the same name each time");
  });

  it("fails the task after three refusals that will not pass, with the last one", async () => {
    const one = started();
    for (let i = 0; i < 3; i++)
      one.backend.failNext("create", new BackendError("terminal", "the image is not allowed"));
    one.queue.publish(content);
    await one.clock.step(4 * retryMs);
    assert.match(
      one.tasks.ends[0]?.reason.join("") ?? "",
      /3 executors were tried.*: the image is not allowed/,
    );
    assert.equal(one.phase(), "finished 3");
  });

  for (const said of ["cancelled", "success", "failure", "skipped", "gone"] as const satisfies Said[]) {
    it(`never starts a task of which Gitea says ${said}`, async () => {
      const one = started();
      one.tasks.says.set(taskId, said);
      one.queue.publish(content);
      await one.clock.step(60_000);
      assert.deepEqual(one.backend.called("create"), []);
      assert.equal(one.phase(), "finished");
      assert.equal(one.queue.size, 0);
      const expected = said === "cancelled" ? [{ taskId, result: "cancelled", reason: [] }] : [];
      assert.deepEqual(one.tasks.ends, expected);
    });
  }

  it("starts nothing while Gitea does not answer, and does then", async () => {
    const one = started();
    one.tasks.failNext("beat", new Error("no answer"));
    one.queue.publish(content);
    await one.clock.step(0);
    assert.equal(one.events().at(-1), "backend_retry");
    assert.deepEqual(one.backend.called("create"), []);
    assert.equal(one.phase(), "queued");
    assert.deepEqual(one.lane.slots.held(), []);
    await one.clock.step(retryMs);
    assert.equal(one.events().at(-1), "backend_ready");
  });

  it("creates nothing when the record cannot be written", async () => {
    const one = started();
    one.store.failNext("update", new Error("no answer"));
    one.queue.publish(content);
    await one.clock.step(0);
    assert.deepEqual(one.backend.called("create"), []);
    await one.clock.step(retryMs);
    assert.equal(one.phase(), "starting 1");
    assert.equal(one.backend.world.stored.size, 1);
  });

  it("starts nothing when the claim came between the look and the change", async () => {
    const one = await waiting();
    const name = one.executor(assignment);
    one.backend.end(name);
    await one.clock.step(0);
    await one.claim(assignment);
    await one.clock.step(retryMs);
    assert.equal(one.phase(), "claimed 1");
    assert.equal(one.backend.called("create").length, 1);
    assert.deepEqual(one.backend.called("delete"), [], "the reconciler sees to a claimed one");
  });

  /** A tenth of the real times, so that the clock has fewer steps to make. */
  const tenth = { claimMs: 24_000, startMs: 60_000, pendingMs: 360_000 };

  it("replaces an executor that runs and does not claim its task in time, and ends it first", async () => {
    assert.equal(defaultTimes.startMs, 10 * 60_000);
    const one = started({ times: tenth });
    one.queue.publish(content);
    await one.clock.step(60_000);
    const name = one.executor(assignment);
    assert.deepEqual(alive(one), [name]);
    await one.clock.step(24_000);
    assert.equal(one.phase(), "starting 2");
    assert.deepEqual(alive(one), [one.executor(assignment)]);
    await one.clock.step(270_000);
    assert.match(
      one.tasks.ends[0]?.reason.join("") ?? "",
      /The last one: it did not ask for its job in time/,
    );
    assert.deepEqual(alive(one), []);
  });

  it("waits longer for an executor that does not run yet, and gives it its whole time after that", async () => {
    assert.equal(defaultTimes.pendingMs, 60 * 60_000);
    const one = started({ times: tenth });
    one.backend.startsAtOnce = false;
    one.queue.publish(content);
    await one.clock.step(350_000);
    const name = one.executor(assignment);
    one.backend.start(name);
    await one.clock.step(50_000);
    assert.deepEqual(alive(one), [name]);
    await one.clock.step(60_000);
    assert.equal(one.phase(), "starting 2");
    await one.clock.step(390_000);
    assert.equal(one.phase(), "starting 3");
  });

  it("tries the attempt that a write began whose answer got lost", async () => {
    const one = started();
    one.store.failNext("update", new Error("no answer"), { done: true });
    one.queue.publish(content);
    await one.clock.step(retryMs);
    assert.equal(one.phase(), "starting 1");
    assert.equal(one.backend.called("create").length, 1);
  });

  it("I10 goes on with a living executor whose record was lost, and creates no second one", async () => {
    const earlier = await waiting();
    const name = earlier.executor(assignment);
    await earlier.stop();
    const one = started({ world: earlier.backend.world });
    one.run("reconciler");
    one.queue.publish(content);
    await one.clock.step(60_000);
    assert.deepEqual(alive(one), [name]);
    assert.equal(one.executor(assignment), name);
    assert.deepEqual(one.backend.called("create"), []);
    assert.deepEqual(one.lane.slots.held(), [id]);
    await one.claim(assignment);
    await one.clock.step(0);
    assert.equal(one.queue.size, 0);
  });

  /** A lane after the loss of its records, with executors of these attempts in this order. */
  async function withoutRecords(...numbers: readonly number[]): Promise<LaneUnderTest> {
    const one = createLaneUnderTest();
    open.push(one);
    for (const number of numbers) {
      const metadata = anExecutorMetadata({ assignment, attempt: anAttempt({ number }) });
      const facade = { url: "https://facade.example.org:8443", spiffeId: "spiffe://example.org/controller" };
      await one.backend.create(
        { metadata, environment: executorEnvironment(assignment, "x", facade) },
        never,
      );
    }
    one.queue.publish(content);
    return one;
  }

  it("I10 goes on with the newest attempt of several without a record; the reconciler ends the others", async () => {
    const one = await withoutRecords(1, 3, 2);
    one.run();
    await one.clock.step(0);
    assert.equal(one.phase(), "starting 3");
    assert.deepEqual(alive(one), [one.executor(assignment)]);
  });

  it("starts anew when the executor without a record has ended", async () => {
    const one = await withoutRecords(2);
    const [old = ""] = alive(one);
    one.backend.end(old);
    one.run();
    await one.clock.step(0);
    assert.equal(one.phase(), "starting 1");
    assert.equal(one.backend.world.stored.has(old), false);
    assert.equal(alive(one).length, 1);
  });

  it("records what Gitea shows when the failure came too late", async () => {
    const one = await waiting();
    for (let attempt = 1; attempt <= 3; attempt++) {
      if (attempt === 3) one.tasks.says.set(taskId, "cancelled");
      one.backend.end(one.executor(assignment));
      await one.clock.step(retryMs);
    }
    const phase = one.store.stored.get(id)?.record.phase;
    assert.ok(phase?.name === "finished");
    assert.equal(phase.result, "cancelled");
  });

  it("creates the executor of an attempt that was only begun before a restart", async () => {
    const earlier = started();
    earlier.backend.hold("create");
    earlier.queue.publish(content);
    await earlier.clock.step(0);
    const name = earlier.executor(assignment);
    const one = started({ world: earlier.backend.world, store: earlier.store });
    for (const record of earlier.store.stored.values()) one.assignments.restore(record);
    one.queue.publish(content);
    await one.clock.step(0);
    assert.deepEqual(alive(one), [name]);
    assert.equal(one.phase(), "starting 1");
  });
});
