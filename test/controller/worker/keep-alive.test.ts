import assert from "node:assert/strict";
import { afterEach, describe, it } from "mocha";
import { defaultTimes } from "../../../controller/assignment/times.ts";
import { createKeepAlive } from "../../../controller/worker/keep-alive.ts";
import { aContent } from "../../fakes/fake-queue.ts";
import type { Said } from "../../fakes/fake-tasks.ts";
import {
  createLaneUnderTest,
  type LaneUnderTest,
  type LoopName,
  never,
} from "../../support/lane-under-test.ts";

const contents = [42n, 43n].map((taskId) => aContent({ taskId }));
const [first, second] = contents.map(({ assignment }) => assignment);
assert.ok(first && second);

describe("keeping unclaimed tasks alive", () => {
  const open: LaneUnderTest[] = [];
  afterEach(async () => {
    for (const one of open.splice(0)) await one.stop();
  });
  /** The first has the only slot, the second waits for one. */
  async function started(...loops: readonly LoopName[]): Promise<LaneUnderTest> {
    const one = createLaneUnderTest({ capacity: 1 });
    open.push(one);
    for (const content of contents) {
      const sequence = one.queue.publish(content);
      await one.assignments.offer({ ...content, sequence }, never);
    }
    one.run(...loops);
    await one.clock.step(0);
    return one;
  }

  it("tells Gitea every 12 s of each task that nobody has claimed, waiting or starting", async () => {
    const one = await started("worker", "keep-alive");
    const before = one.tasks.beats.length;
    await one.clock.step(36_000);
    assert.deepEqual(one.tasks.beats.slice(before), [42n, 43n, 42n, 43n, 42n, 43n]);
  });

  for (const [random, ms] of [
    [0, 10_000],
    [0.999_999, 14_999],
  ] as const)
    it(`leaves ${ms / 1000} s between two beats if chance wants it so`, async () => {
      const one = createLaneUnderTest();
      open.push(one);
      await one.assignments.offer({ ...aContent(), sequence: 1 }, never);
      const beats: number[] = [];
      const stop = new AbortController();
      const speaking = createKeepAlive({
        kind: "pod",
        assignments: one.assignments,
        beat: () => {
          beats.push(one.clock.now());
          return Promise.resolve<Said>("running");
        },
        report: (_, error) => assert.fail(error),
        times: defaultTimes,
        clock: one.clock,
        random: () => random,
      }).run(stop.signal);
      await one.clock.step(60_000);
      stop.abort();
      await speaking;
      const [a = 0, b = 0] = beats;
      assert.equal(Math.floor(b - a), ms);
    });

  it("tells once a minute that Gitea does not answer, however many tasks it speaks for", async () => {
    const one = await started("keep-alive");
    for (let i = 0; i < 100; i++) one.tasks.failNext("beat", new Error("connection refused"));
    await one.clock.step(110_000);
    const lines = one.log.lines.filter(({ message }) => message === "assignment processing error");
    assert.equal(lines.length, 2);
    assert.equal(lines[0]?.fields["leftOut"], 0);
    assert.ok(Number(lines[1]?.fields["leftOut"]) >= 6, String(lines[1]?.fields["leftOut"]));
  });

  it("asks about eight tasks at once when Gitea is slower than their beats come, and about each as often", async () => {
    const one = createLaneUnderTest();
    open.push(one);
    const tasks = Array.from({ length: 20 }, (_, index) => BigInt(index + 1));
    for (const [index, taskId] of tasks.entries())
      await one.assignments.offer({ ...aContent({ taskId }), sequence: index + 1 }, never);
    const asked: bigint[] = [];
    let atOnce = 0;
    let most = 0;
    let chance = 0;
    const stop = new AbortController();
    const speaking = createKeepAlive({
      kind: "pod",
      assignments: one.assignments,
      beat: async (taskId) => {
        asked.push(taskId);
        most = Math.max(most, ++atOnce);
        await one.clock.sleep(6_000, never);
        atOnce--;
        return "running";
      },
      report: (_, error) => assert.fail(error),
      times: defaultTimes,
      clock: one.clock,
      random: () => (chance = (chance + 0.618) % 1),
    }).run(stop.signal);
    await one.clock.step(120_000);
    assert.equal(most, 8);
    for (const task of tasks) {
      const times = asked.filter((taskId) => taskId === task).length;
      assert.ok(times >= 6 && times <= 9, `${task}: ${times} times`);
    }
    stop.abort();
    await one.clock.step(6_000);
    await speaking;
  });

  it("is silent about a task from its claim on", async () => {
    const one = await started("worker", "keep-alive");
    await one.claim(first);
    const before = one.tasks.beats.length;
    await one.clock.step(24_000);
    assert.deepEqual(one.tasks.beats.slice(before), [43n, 43n]);
  });

  it("is silent about an adopted task: it counts as claimed", async () => {
    const one = await started("keep-alive");
    await one.apply(first, { type: "executor_adopted", attempt: { number: 1, nonce: "0".repeat(32) } });
    await one.clock.step(24_000);
    assert.equal(one.tasks.beats.includes(42n), false);
  });

  it("is silent about a task whose end is decided", async () => {
    const one = await started("keep-alive");
    await one.apply(first, { type: "cancel_told" });
    await one.clock.step(24_000);
    assert.equal(one.tasks.beats.includes(42n), false);
  });

  it("B-41 leaves the tasks of another backend to that one's lane", async () => {
    const one = await started("keep-alive");
    const content = aContent({ taskId: 50n, backend: "vm" });
    await one.assignments.offer({ ...content, sequence: 3 }, never);
    await one.clock.step(24_000);
    assert.equal(one.tasks.beats.includes(50n), false);
  });

  it("I6 decides the end of a cancelled task within 20 s while it waits, and nothing is started", async () => {
    const one = await started();
    one.tasks.says.set(43n, "cancelled");
    await one.clock.step(20_000);
    assert.equal(one.phase(second), "ending");
    assert.deepEqual(one.tasks.ends, [], "who delivers ends reports it");
    assert.equal(one.queue.deliveries(2), 0);
    assert.equal(one.backend.called("create").length, 1);
  });

  for (const said of ["cancelled", "failure", "gone"] as const) {
    it(`I6 decides the end of a starting task within 20 s after Gitea said ${said}`, async () => {
      const one = await started();
      one.tasks.says.set(42n, said);
      await one.clock.step(20_000);
      assert.equal(one.phase(first), said === "cancelled" ? "ending 1" : "finished 1");
      assert.equal(one.queue.size, 1, "its message is acknowledged");
    });
  }

  it("I6 decides the end of a task within 20 s though its create hangs for two minutes", async () => {
    const one = createLaneUnderTest();
    open.push(one);
    const release = one.backend.hold("create");
    one.queue.publish(aContent());
    one.run();
    await one.clock.step(1_000);
    assert.equal(one.phase(), "starting 1");
    one.tasks.says.set(42n, "cancelled");
    await one.clock.step(20_000);
    assert.equal(one.phase(), "ending 1");
    assert.equal(one.queue.size, 0);
    release();
  });

  it("speaks for the others while Gitea does not answer for one, or its actor is busy", async () => {
    const one = await started("keep-alive");
    const busy = Promise.withResolvers<void>();
    const working = one.assignments.within(first.id, () => busy.promise);
    one.tasks.hang(42n);
    const before = one.tasks.beats.length;
    await one.clock.step(48_000);
    assert.equal(one.tasks.beats.slice(before).filter((taskId) => taskId === 43n).length, 4);
    assert.equal(
      one.tasks.beats.slice(before).filter((taskId) => taskId === 42n).length,
      4,
      "again and again",
    );
    busy.resolve();
    await working;
  });

  it("does not end a task that was claimed while Gitea was asked", async () => {
    const one = await started("worker", "keep-alive");
    one.tasks.says.set(42n, "success");
    const busy = Promise.withResolvers<void>();
    const claiming = one.assignments.within(first.id, async () => {
      await busy.promise;
      const { phase } = one.record(first);
      assert.ok(phase.name === "starting");
      const claim = { type: "claimed", attempt: phase.attempt, instance: "first", logRows: 0 } as const;
      await one.assignments.apply(first.id, claim, never);
    });
    await one.clock.step(15_000);
    busy.resolve();
    await claiming;
    await one.clock.step(0);
    assert.equal(one.phase(first), "claimed 1");
  });

  it("asks again when Gitea does not answer, or the record cannot be written", async () => {
    const one = await started("keep-alive");
    one.tasks.failNext("beat", new Error("no answer"));
    await one.clock.step(12_000);
    assert.equal(one.log.lines.at(-1)?.fields["assignment"], first.id);
    one.tasks.says.set(42n, "cancelled");
    one.store.failNext("update", new Error("no answer"));
    await one.clock.step(12_000);
    assert.equal(one.phase(first), "queued");
    await one.clock.step(12_000);
    assert.equal(one.phase(first), "ending");
  });
});
