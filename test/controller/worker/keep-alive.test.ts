import assert from "node:assert/strict";
import { afterEach, describe, it } from "mocha";
import { aContent } from "../../fakes/fake-queue.ts";
import { createLaneUnderTest, type LaneUnderTest, never } from "../../support/lane-under-test.ts";

const contents = [42n, 43n].map((taskId) => aContent({ taskId }));
const [first, second] = contents.map(({ assignment }) => assignment);
assert.ok(first && second);

describe("keeping unclaimed tasks alive", () => {
  const open: LaneUnderTest[] = [];
  afterEach(async () => {
    for (const one of open.splice(0)) await one.stop();
  });
  /** The first has the only slot, the second waits for one. */
  async function started(...loops: readonly string[]): Promise<LaneUnderTest> {
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

  it("is silent about a task from its claim on", async () => {
    const one = await started("worker", "keep-alive");
    await one.claim(first);
    const before = one.tasks.beats.length;
    await one.clock.step(24_000);
    assert.deepEqual(one.tasks.beats.slice(before), [43n, 43n]);
  });

  it("B-41 leaves the tasks of another backend to that one's lane", async () => {
    const one = await started("keep-alive");
    const content = aContent({ taskId: 50n, backend: "vm" });
    await one.assignments.offer({ ...content, sequence: 3 }, never);
    await one.clock.step(24_000);
    assert.equal(one.tasks.beats.includes(50n), false);
  });

  it("never beats in the middle of a claim", async () => {
    const one = await started("keep-alive");
    const { promise, resolve } = Promise.withResolvers<void>();
    const claiming = one.assignments.within(first.id, async () => {
      await promise;
      await one.assignments.change(
        first.id,
        (record) => ({ ...record, phase: { name: "finished", result: "success", at: 1 } }),
        never,
      );
    });
    const before = one.tasks.beats.length;
    await one.clock.step(12_000);
    resolve();
    await claiming;
    await one.clock.step(0);
    assert.deepEqual(one.tasks.beats.slice(before), [43n]);
  });

  it("I6 ends a cancelled task within 20 s while it waits: report, record and message, and nothing is started", async () => {
    const one = await started();
    one.tasks.says.set(43n, "cancelled");
    await one.clock.step(20_000);
    assert.deepEqual(one.tasks.ends, [{ taskId: 43n, result: "cancelled", reason: [] }]);
    assert.equal(one.phase(second), "unknown");
    assert.equal(one.queue.deliveries(2), 0);
    assert.equal(one.queue.size, 1);
    assert.equal(one.backend.called("create").length, 1);
  });

  for (const said of ["cancelled", "failure", "gone"] as const) {
    it(`I6 ends an executor that has not claimed within 20 s after Gitea said ${said}`, async () => {
      const one = await started();
      one.tasks.says.set(42n, said);
      await one.clock.step(20_000);
      assert.equal(one.phase(first), "finished 1");
      const states = [...one.backend.world.stored.keys()];
      assert.equal(states.length, 1, "the first is deleted, the second has its slot");
      assert.ok(states[0]?.startsWith(second.id));
      assert.equal(one.queue.size, 1);
      await one.clock.step(60_000);
      assert.equal(one.phase(first), "unknown");
      assert.equal(one.tasks.ends.length, said === "cancelled" ? 1 : 0);
    });
  }

  it("asks again when Gitea does not answer, or the report does not arrive", async () => {
    const one = await started("keep-alive");
    one.tasks.failNext("beat", new Error("no answer"));
    await one.clock.step(12_000);
    assert.equal(one.log.lines.at(-1)?.fields["assignment"], first.id);
    one.tasks.says.set(42n, "cancelled");
    one.tasks.failNext("reportEnd", new Error("no answer"), { done: true });
    await one.clock.step(12_000);
    assert.equal(one.phase(first), "queued");
    await one.clock.step(12_000);
    assert.equal(one.phase(first), "finished");
  });
});
