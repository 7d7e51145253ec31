import assert from "node:assert/strict";
import * as fc from "fast-check";
import { afterEach, describe, it } from "mocha";
import type { Assignment } from "../../../controller/assignment/assignment.ts";
import { defaultTimes } from "../../../controller/assignment/times.ts";
import { BackendError } from "../../../controller/backends/backend.ts";
import { createFakeBackend } from "../../fakes/fake-backend.ts";
import { settle } from "../../fakes/fake-clock.ts";
import { aContent } from "../../fakes/fake-queue.ts";
import { anAttempt, anExecutorMetadata } from "../../support/builders.ts";
import {
  createLaneUnderTest,
  type LaneUnderTest,
  type LaneUnderTestOptions,
  never,
} from "../../support/lane-under-test.ts";

const { assignment } = aContent();
const { id, taskId } = assignment;

describe("the reconciler", () => {
  const open: LaneUnderTest[] = [];
  afterEach(async () => {
    for (const one of open.splice(0)) await one.stop();
  });
  function created(options: LaneUnderTestOptions = {}): LaneUnderTest {
    const one = createLaneUnderTest(options);
    open.push(one);
    return one;
  }
  /** A job whose executor has claimed it; only the reconciler runs. */
  async function claimed(options: LaneUnderTestOptions = {}): Promise<LaneUnderTest> {
    const one = created(options);
    const worker = createLaneUnderTest({ ...one, world: one.backend.world });
    worker.run("worker");
    one.queue.publish(aContent());
    await one.clock.step(0);
    await worker.claim(assignment);
    await worker.stop();
    one.lane.slots.restore(id);
    return one;
  }
  const pass = ({ lane }: LaneUnderTest) => lane.reconciler.pass(never);
  const errors = ({ log }: LaneUnderTest) =>
    log.lines
      .filter(({ level }) => level === "error")
      .map(({ message, fields }) => `${message}: ${String(fields["error"] ?? fields["reason"])}`);
  function assertNothingLeft(one: LaneUnderTest): void {
    assert.deepEqual([...one.backend.world.stored.keys()], []);
    assert.deepEqual(one.lane.slots.held(), []);
    assert.deepEqual(one.assignments.all(), []);
    assert.equal(one.store.stored.size, 0);
    assert.equal(one.queue.size, 0);
  }

  it("leaves a job that runs alone: no call but one look, and no write", async () => {
    const one = await claimed();
    const { length } = one.store.writes;
    for (let i = 0; i < 3; i++) await pass(one);
    assert.deepEqual(
      one.backend.calls.map(({ method }) => method),
      ["list", "list", "list"],
    );
    assert.equal(one.store.writes.length, length);
    assert.equal(one.lane.reconciler.passedAt(), one.clock.now());
  });

  it("fails a claimed job whose executor has ended, once, and clears everything away", async () => {
    const one = await claimed();
    one.backend.end(one.executor(assignment), "out of memory");
    for (let i = 0; i < 3; i++) await pass(one);
    assert.deepEqual(one.tasks.ends, [
      {
        taskId,
        result: "failure",
        reason: ["The executor ended before the job was over: out of memory."],
      },
    ]);
    assertNothingLeft(one);
  });

  it("fails a claimed job whose executor is gone", async () => {
    const one = await claimed();
    one.backend.vanish(one.executor(assignment));
    for (let i = 0; i < 2; i++) await pass(one);
    assert.equal(one.tasks.ends.length, 1);
    assertNothingLeft(one);
  });

  it("leaves a claimed job alone whose executor cannot be read, until it can be or is gone", async () => {
    const one = await claimed();
    const name = one.executor(assignment);
    one.backend.spoil(name);
    for (let i = 0; i < 3; i++) await pass(one);
    assert.deepEqual(one.tasks.ends, []);
    assert.equal(one.phase(assignment), "claimed 1");
    one.backend.vanish(name);
    for (let i = 0; i < 2; i++) await pass(one);
    assert.equal(one.tasks.ends.length, 1);
    assertNothingLeft(one);
  });

  it("shows what Gitea made of the failure, not what we reported", async () => {
    const one = await claimed();
    one.tasks.says.set(taskId, "cancelled");
    one.backend.end(one.executor(assignment));
    await pass(one);
    const { phase } = one.store.stored.get(id)?.record ?? {};
    assert.ok(phase?.name === "finished");
    assert.equal(phase.result, "cancelled");
  });

  it("fails the job again until Gitea and the record have it, and keeps the executor until then", async () => {
    const one = await claimed();
    const name = one.executor(assignment);
    one.backend.end(name);
    one.tasks.failNext("reportEnd", new Error("no answer"), { done: true });
    await pass(one);
    one.store.failNext("update", new Error("no answer"));
    await pass(one);
    assert.deepEqual([...one.backend.world.stored.keys()], [name]);
    assert.equal(errors(one).length, 2);
    for (let i = 0; i < 2; i++) await pass(one);
    assert.equal(one.tasks.ends.length, 3);
    for (let i = 0; i < 2; i++) await pass(one);
    assertNothingLeft(one);
  });

  it("B-52 leaves an executor whose task is over a minute to end, then kills and deletes it", async () => {
    const one = await claimed();
    const name = one.executor(assignment);
    await one.end(assignment);
    await pass(one);
    await one.clock.step(defaultTimes.terminalGraceMs - 1);
    await pass(one);
    assert.deepEqual(one.backend.called("kill"), []);
    assert.deepEqual(one.lane.slots.held(), [id]);
    await one.clock.step(1);
    await pass(one);
    assert.deepEqual(one.backend.called("kill"), [name]);
    for (let i = 0; i < 2; i++) await pass(one);
    assertNothingLeft(one);
    assert.deepEqual(one.tasks.ends, []);
  });

  it("B-72 gives the slot back only when the executor has ended, then deletes it, then forgets", async () => {
    const one = await claimed();
    const order: string[] = [];
    one.lane.slots.onChange(() => order.push(`slots ${one.lane.slots.held().length}`));
    await one.end(assignment);
    await pass(one);
    assert.equal(order.length, 0);
    one.backend.end(one.executor(assignment));
    order.push(`there ${one.backend.world.stored.size}`);
    const hold = one.backend.hold("delete");
    const passing = pass(one);
    await settle();
    assert.deepEqual(order, ["there 1", "slots 0"]);
    assert.equal(one.backend.world.stored.size, 1);
    hold();
    await passing;
    await pass(one);
    assertNothingLeft(one);
  });

  it("does all of it by itself as soon as something changes, and looks now and then", async () => {
    const one = await claimed();
    one.run("reconciler");
    await one.clock.step(0);
    const before = one.backend.calls.length;
    await one.clock.step(defaultTimes.reconcileMs);
    assert.equal(one.backend.calls.length, before + 1);
    one.backend.end(one.executor(assignment));
    await one.clock.step(0);
    assertNothingLeft(one);
    assert.equal(one.tasks.ends.length, 1);
  });

  it("does no harm with a list that is older than the claim", async () => {
    const one = created();
    one.run("worker");
    const answered = Promise.withResolvers<void>();
    const fresh = createFakeBackend({ clock: one.clock, world: one.backend.world });
    one.backend.list = async (signal) => {
      one.backend.list = (later) => fresh.list(later);
      const before = await fresh.list(signal);
      await answered.promise;
      return before;
    };
    const passing = pass(one);
    one.queue.publish(aContent());
    await one.clock.step(0);
    await one.claim(assignment);
    answered.resolve();
    await passing;
    assert.equal(one.phase(), "claimed 1");
    assert.deepEqual(one.tasks.ends, []);
    assert.deepEqual(one.backend.called("kill"), []);
    assert.deepEqual(one.lane.slots.held(), [id]);
  });

  it("looks again as the assignment's actor before it acts: what was claimed, ended and recorded is no failure", async () => {
    const one = await claimed();
    const { promise, resolve } = Promise.withResolvers<void>();
    // The facade is about to record the result while the executor ends.
    const relaying = one.assignments.within(id, () => promise);
    const recorded = one.end(assignment);
    one.backend.end(one.executor(assignment));
    const passing = pass(one);
    await settle();
    resolve();
    await Promise.all([relaying, recorded, passing]);
    assert.deepEqual(one.tasks.ends, []);
    await pass(one);
    assertNothingLeft(one);
  });

  it("deletes the executor of another attempt than the current one, though it lives", async () => {
    const one = await claimed();
    const name = one.executor(assignment);
    const metadata = anExecutorMetadata({ assignment, attempt: anAttempt({ number: 7 }) });
    const environment = one.backend.environmentOf(name);
    assert.ok(environment);
    const { name: other } = await one.backend.create({ metadata, environment }, never);
    await pass(one);
    assert.deepEqual(one.backend.called("delete"), [other]);
    assert.deepEqual([...one.backend.world.stored.keys()], [name]);
    assert.equal(one.phase(), "claimed 1");
  });

  it("takes a slot for what does not validate, reports it once, stops nothing, and frees the slot with it", async () => {
    const one = await claimed();
    const other = aContent({ taskId: 43n });
    const worker = createLaneUnderTest({ ...one, world: one.backend.world });
    worker.run("worker");
    one.queue.publish(other);
    await one.clock.step(0);
    await worker.claim(other.assignment);
    await worker.stop();
    const name = one.executor(assignment);
    one.backend.spoil(name);
    one.backend.end(worker.executor(other.assignment));
    for (let i = 0; i < 3; i++) await pass(one);
    assert.equal(
      one.tasks.ends.some((end) => end.taskId === 43n),
      true,
    );
    const reported = errors(one).filter((line) => line.startsWith("executor with invalid metadata"));
    assert.equal(reported.length, 1);
    assert.match(reported[0] ?? "", /nonce is missing/);
    assert.ok(one.lane.slots.held().includes(`invalid/${name}`));
    assert.ok(one.backend.world.stored.has(name), "it is not ours to delete");
    one.backend.vanish(name);
    for (let i = 0; i < 2; i++) await pass(one);
    assert.deepEqual(one.lane.slots.held(), []);
  });

  it("B-41 leaves the assignments of another backend to that one's lane", async () => {
    const one = created();
    const content = aContent({ backend: "vm" });
    await one.assignments.offer({ ...content, sequence: 1 }, never);
    await one.assignments.change(
      id,
      (record) => ({ ...record, phase: { name: "finished", result: "success", at: 1 } }),
      never,
    );
    await pass(one);
    assert.equal(one.assignments.all().length, 1);
  });

  it("holds no slot for an executor that has ended, also if the worker still has to see to it", async () => {
    const one = created();
    one.run("worker");
    one.queue.publish(aContent());
    await one.clock.step(0);
    await one.stop();
    one.backend.end(one.executor(assignment));
    const next = created({ world: one.backend.world, store: one.store, clock: one.clock });
    for (const record of one.store.stored.values()) next.assignments.restore(record);
    await pass(next);
    assert.deepEqual(next.lane.slots.held(), []);
    assert.deepEqual(next.backend.called("delete"), []);
  });

  it("does not let one assignment hold up the others", async () => {
    const one = await claimed();
    const other = aContent({ taskId: 43n });
    const worker = createLaneUnderTest({ ...one, world: one.backend.world });
    worker.run("worker");
    one.queue.publish(other);
    await one.clock.step(0);
    await worker.claim(other.assignment);
    await worker.stop();
    one.backend.end(one.executor(assignment));
    one.backend.end(one.executor(other.assignment));
    const { promise, resolve } = Promise.withResolvers<void>();
    const stuck = one.assignments.within(id, () => promise);
    const passing = pass(one);
    await one.clock.step(defaultTimes.callMs);
    await passing;
    assert.deepEqual(
      one.tasks.ends.map((end) => end.taskId),
      [43n],
    );
    assert.equal(errors(one).length, 1);
    resolve();
    await stuck;
    await pass(one);
    assert.equal(one.tasks.ends.length, 2);
  });

  it("reports a backend that cannot be listed, tries again, and gives up on one that never answers", async () => {
    const one = await claimed();
    one.backend.failNext("list", new BackendError("retryable", "the API server is away"));
    await assert.rejects(pass(one), /away/);
    assert.deepEqual(one.lane.slots.held(), [id]);
    const hold = one.backend.hold("list");
    const rejected = assert.rejects(pass(one), /no answer within 30 s/);
    await one.clock.step(defaultTimes.callMs);
    await rejected;
    hold();
    await pass(one);
    assert.deepEqual(one.lane.slots.held(), [id]);
  });

  it("goes on by itself after an error", async () => {
    const one = await claimed();
    one.backend.failNext("list", new BackendError("retryable", "the API server is away"));
    one.backend.end(one.executor(assignment));
    one.run("reconciler");
    await one.clock.step(0);
    assert.deepEqual(errors(one), ["backend lifecycle error: the API server is away"]);
    await one.clock.step(defaultTimes.againMs);
    assertNothingLeft(one);
  });

  describe("without a record", () => {
    async function lost(): Promise<LaneUnderTest> {
      const earlier = await claimed();
      const one = created({ world: earlier.backend.world, clock: earlier.clock });
      one.lane.slots.restore(id);
      return one;
    }
    const name = ({ backend }: LaneUnderTest) => [...backend.world.stored.keys()][0] ?? "";

    it("I10 leaves a running executor alone, and holds its slot", async () => {
      const one = await lost();
      one.lane.slots.release(id);
      await one.clock.step(3_600_000);
      await pass(one);
      assert.deepEqual(one.lane.slots.held(), [id]);
      assert.deepEqual(
        one.backend.calls.map(({ method }) => method),
        ["list"],
      );
    });

    it("fails the task of one that has ended without a result", async () => {
      const one = await lost();
      one.backend.end(name(one));
      for (let i = 0; i < 2; i++) await pass(one);
      assert.equal(one.tasks.ends.length, 1);
      assert.deepEqual([...one.backend.world.stored.keys()], []);
      assert.deepEqual(one.lane.slots.held(), []);
    });

    it("fails nothing for one whose result Gitea has", async () => {
      const one = await lost();
      await one.backend.markTerminal(name(one), never);
      one.backend.end(name(one));
      for (let i = 0; i < 2; i++) await pass(one);
      assert.deepEqual(one.tasks.ends, []);
      assert.deepEqual([...one.backend.world.stored.keys()], []);
    });
  });

  it("gives back the slot of an assignment that nobody knows", async () => {
    const one = created();
    one.lane.slots.restore("gitea-task-99");
    await pass(one);
    assert.deepEqual(one.lane.slots.held(), []);
  });

  it("converges from every state and through every single failure to nothing, with one result for each task", async () => {
    const faults = fc.array(
      fc.constantFrom(
        ["backend", "list"],
        ["backend", "kill"],
        ["backend", "delete"],
        ["store", "update"],
        ["store", "remove"],
        ["tasks", "reportEnd"],
        ["queue", "remove"],
      ),
      { maxLength: 4 },
    );
    const job = fc.record({
      claimed: fc.boolean(),
      executor: fc.constantFrom("runs", "ended", "gone"),
      over: fc.boolean(),
    });
    const worlds = fc.record({
      jobs: fc.array(job, { minLength: 1, maxLength: 3 }),
      faults,
      done: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(worlds, async ({ jobs, faults: failing, done }) => {
        const one = createLaneUnderTest({ capacity: 3 });
        one.run("worker");
        const all: Assignment[] = [];
        for (const [index, { claimed: isClaimed }] of jobs.entries()) {
          const content = aContent({ taskId: BigInt(index + 1) });
          all.push(content.assignment);
          one.queue.publish(content);
          await settle();
          if (isClaimed) await one.claim(content.assignment);
        }
        for (const [index, each] of jobs.entries()) {
          const mine = all[index];
          assert.ok(mine);
          if (each.over) await one.end(mine);
          // As with a real result, which is in Gitea before it is in the record.
          if (each.over) one.tasks.says.set(mine.taskId, "success");
          if (each.executor === "ended") one.backend.end(one.executor(mine));
          if (each.executor === "gone") one.backend.vanish(one.executor(mine));
        }
        const error = new BackendError("retryable", "as the test wants it");
        for (const [where, method] of failing) {
          if (where === "backend") one.backend.failNext(method, error, { done });
          if (where === "store") one.store.failNext(method, error, { done });
          if (where === "tasks") one.tasks.failNext("reportEnd", error, { done });
          if (where === "queue") one.queue.failNext("remove", error);
        }
        one.run("reconciler");
        await one.clock.step(240_000);
        // Whoever is still unclaimed or running now has done nothing wrong; the rest has to be gone.
        for (const [index, { claimed: isClaimed, executor, over }] of jobs.entries()) {
          const mine = all[index];
          assert.ok(mine);
          const live = !over && (isClaimed ? executor === "runs" : true);
          assert.equal(one.assignments.get(mine.id) !== undefined, live, JSON.stringify(jobs));
          assert.equal(one.lane.slots.has(mine.id), live);
          const reported = one.tasks.ends.filter((end) => end.taskId === mine.taskId);
          if (live || over) assert.deepEqual(reported, []);
          else assert.equal(one.tasks.says.get(mine.taskId), "failure");
        }
        const alive = [...one.backend.world.stored.keys()];
        assert.equal(alive.length, one.lane.slots.held().length, "one executor for each slot");
        assert.equal(one.store.stored.size, one.assignments.all().length);
        await one.stop();
      }),
      { numRuns: 60 },
    );
  });
});
