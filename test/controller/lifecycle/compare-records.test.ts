import assert from "node:assert/strict";
import { beforeEach, describe, it } from "mocha";
import { defaultTimes as times } from "../../../controller/assignment/times.ts";
import { type Assignments, createAssignments } from "../../../controller/lifecycle/assignments.ts";
import { type CompareRecords, createCompareRecords } from "../../../controller/lifecycle/compare-records.ts";
import { createFakeClock, type FakeClock, settle } from "../../fakes/fake-clock.ts";
import { createFakeRecordStore, type FakeRecordStore } from "../../fakes/fake-record-store.ts";
import { createRecordingLogger } from "../../fakes/recording-logger.ts";
import { anAssignment, aRecord } from "../../support/builders.ts";
import { inPhase } from "../../support/phases.ts";
import { never } from "../../support/reconciler-under-test.ts";

const [first, second] = [anAssignment(), anAssignment({ taskId: 43n })];

describe("comparing the records with what is in memory", () => {
  let clock: FakeClock;
  let store: FakeRecordStore;
  let assignments: Assignments;
  let compare: CompareRecords;
  let lists: number;
  let held: Promise<void> | undefined;
  beforeEach(() => {
    clock = createFakeClock();
    store = createFakeRecordStore();
    assignments = createAssignments({ store, clock });
    lists = 0;
    held = undefined;
    const list = async () => {
      lists++;
      const listed = await store.list();
      await held;
      return listed;
    };
    compare = createCompareRecords({
      records: { list },
      assignments,
      times,
      clock,
      log: createRecordingLogger(),
    });
    store.overwrite({ ...inPhase("claimed"), assignment: first });
    store.overwrite(aRecord({ assignment: second }));
    for (const stored of store.stored.values()) assignments.restore(stored);
  });
  const pass = () => compare.pass(never);

  it("I9 writes nothing while nothing is lost; it reads also while nothing is known, for what cannot be read", async () => {
    for (let i = 0; i < 3; i++) await pass();
    assert.equal(lists, 3);
    assert.deepEqual(store.writes, []);
    store.lose();
    for (const { id } of [first, second]) await assignments.within(id, () => assignments.remove(id, never));
    await pass();
    assert.equal(lists, 4);
    assert.deepEqual(store.writes, ["removed", "removed"]);
  });

  it("I10 writes anew what is lost, also of jobs that nothing else changes", async () => {
    const before = assignments.all().map(({ record }) => record);
    store.lose();
    await pass();
    assert.deepEqual(
      [...store.stored.values()].map(({ record }) => record),
      before,
    );
    await pass();
    assert.deepEqual(store.writes, ["claimed", "queued"]);
  });

  it("never brings back what was forgotten, nor what was made since", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    held = promise;
    store.lose();
    const passing = pass();
    await settle();
    await assignments.within(first.id, () => assignments.remove(first.id, never));
    resolve();
    await passing;
    assert.deepEqual([...store.stored.keys()], [second.id]);
  });

  it("takes in what an earlier leader has left behind, when it is there for the second time", async () => {
    const left = aRecord({ assignment: anAssignment({ taskId: 44n }) });
    store.overwrite(left);
    await pass();
    assert.equal(assignments.get(left.assignment.id), undefined, "somebody may be about to make it known");
    await pass();
    assert.deepEqual(assignments.get(left.assignment.id)?.record, left);
    assert.deepEqual(store.writes, []);
  });

  it("takes in nothing that has become known, or was forgotten, since it was listed", async () => {
    const left = aRecord({ assignment: anAssignment({ taskId: 44n }) });
    const { id } = left.assignment;
    store.overwrite(left);
    await pass();
    const compressedTask = Buffer.from("task");
    await assignments.offer({ ...left, compressedTask }, never);
    await pass();
    assert.equal(assignments.get(id)?.compressedTask, compressedTask);
    await assignments.within(id, () => assignments.remove(id, never));
    await pass();
    await pass();
    assert.equal(assignments.get(id), undefined);
  });

  it("tries again after a write that failed, and goes on by itself", async () => {
    store.lose();
    store.failNext("create", new Error("no answer"), { done: true });
    const stop = new AbortController();
    const running = compare.run(stop.signal);
    await clock.step(times.compareStreamMs);
    assert.equal(store.stored.size, 1);
    await clock.step(times.compareStreamMs);
    assert.equal(store.stored.size, 2);
    stop.abort();
    await running;
  });
});
