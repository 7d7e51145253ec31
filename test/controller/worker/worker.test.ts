import assert from "node:assert/strict";
import { afterEach, describe, it } from "mocha";
import { BackendError } from "../../../controller/backends/backend.ts";
import { defaultTimes } from "../../../controller/assignment/times.ts";
import { createAssignments } from "../../../controller/lifecycle/assignments.ts";
import { createSlots } from "../../../controller/slots/slots.ts";
import { createWorker } from "../../../controller/worker/worker.ts";
import { createFakeClock } from "../../fakes/fake-clock.ts";
import { aContent, createFakeQueue } from "../../fakes/fake-queue.ts";
import { createFakeRecordStore } from "../../fakes/fake-record-store.ts";
import {
  createLaneUnderTest,
  type LaneUnderTest,
  type LaneUnderTestOptions,
  never,
} from "../../support/lane-under-test.ts";

const contents = [42n, 43n, 44n, 45n, 46n].map((taskId) => aContent({ taskId }));
const [first, second, third] = contents.map(({ assignment }) => assignment);
assert.ok(first && second && third);

describe("the worker's loop", () => {
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
  const publish = ({ queue }: LaneUnderTest, count = contents.length) => {
    for (const content of contents.slice(0, count)) queue.publish(content);
  };

  it("pulls as many messages as there are slots, and the next one when a slot is free", async () => {
    const one = started({ capacity: 2 });
    publish(one);
    await one.clock.step(60_000);
    assert.deepEqual(one.slots.held(), [first.id, second.id]);
    assert.deepEqual(
      [1, 2, 3].map((sequence) => one.queue.deliveries(sequence)),
      [1, 1, 0],
    );
    assert.equal(one.events().includes("capacity_wait"), false);
    await one.claim(first);
    await one.clock.step(0);
    assert.equal(one.queue.deliveries(3), 0, "the executor has the slot until it has ended");
    one.slots.release(first.id);
    await one.clock.step(0);
    assert.equal(one.queue.deliveries(3), 1);
  });

  it("does not pull while it has no room", async () => {
    const one = started({ capacity: 1 });
    publish(one, 2);
    await one.clock.step(10_000);
    const before = one.queue.pulls.length;
    await one.clock.step(120_000);
    assert.equal(one.queue.pulls.length, before);
  });

  it("pulls a message that was handed back though the pool is full, as soon as it is due", async () => {
    const one = started({ capacity: 1 });
    one.backend.bindable = false;
    publish(one, 2);
    await one.clock.step(0);
    assert.equal(one.events().at(-1), "backend_pending");
    one.backend.bindable = true;
    await one.clock.step(2_000);
    assert.equal(one.events().at(-1), "backend_ready");
    assert.equal(one.queue.deliveries(1), 2);
    assert.equal(one.queue.deliveries(2), 0, "the one without a slot was left alone");
  });

  it("leaves messages without a slot alone while one with a slot waits to come again", async () => {
    const one = started({ capacity: 1 });
    publish(one, 2);
    for (let i = 0; i < 30; i++) one.backend.failNext("bindIdentity", new BackendError("retryable", "away"));
    await one.clock.step(450_000);
    assert.equal(one.queue.deliveries(2), 0);
    assert.equal(one.events().includes("capacity_wait"), false);
    assert.equal(one.queue.deliveries(1), 31);
  });

  it("pulls for an executor that was there before a restart, though the pool is full", async () => {
    const earlier = started({ capacity: 1 });
    publish(earlier, 1);
    await earlier.clock.step(0);
    await earlier.stop();
    const one = createLaneUnderTest({ capacity: 1, world: earlier.backend.world, store: earlier.store });
    open.push(one);
    for (const record of earlier.store.stored.values()) one.assignments.restore(record);
    one.slots.restore(first.id);
    publish(one, 2);
    one.run("worker");
    await one.clock.step(0);
    assert.equal(one.events("executor transition")[0], "executor_found");
  });

  it("goes on after the queue was away", async () => {
    const one = started();
    one.queue.failNext("next", new Error("no connection"));
    publish(one, 1);
    await one.clock.step(1_999);
    assert.deepEqual(one.backend.called("create"), []);
    await one.clock.step(1);
    assert.equal(one.backend.called("create").length, 1);
    assert.equal(one.log.lines.filter(({ message }) => message === "assignment processing error").length, 1);
  });

  it("has one handler for an assignment, and answers the newest delivery of its message", async () => {
    const one = started();
    publish(one, 1);
    await one.clock.step(0);
    one.queue.forget(1);
    await one.clock.step(0);
    assert.equal(one.queue.deliveries(1), 2);
    await one.clock.step(60_000);
    assert.equal(one.queue.deliveries(1), 2, "it is in hand");
    assert.equal(one.events().filter((event) => event === "received").length, 1);
    await one.claim(first);
    await one.clock.step(0);
    assert.deepEqual(one.queue.answers(), [{ sequence: 1, word: "acknowledged" }]);
    assert.equal(one.backend.called("create").length, 1);
  });

  it("hands a second message of an assignment back until the first is through, then removes it", async () => {
    const one = started();
    publish(one, 1);
    await one.clock.step(0);
    publish(one, 1);
    await one.clock.step(20_000);
    await one.claim(first);
    await one.clock.step(20_000);
    assert.equal(one.queue.size, 0);
    assert.equal(one.backend.called("create").length, 1);
  });

  describe("behind a message that nobody can read, of which the server lets one be unacknowledged", () => {
    const unreadable = {
      kind: "unknown-key",
      keyId: "0badcafe",
      assignmentId: "gitea-task-41",
    } as const;
    async function blocked(): Promise<LaneUnderTest> {
      const clock = createFakeClock();
      const one = createLaneUnderTest({ capacity: 1, clock, queue: createFakeQueue(clock, 1) });
      open.push(one);
      one.queue.publish(unreadable);
      for (const content of contents.slice(0, 2))
        await one.assignments.offer({ ...content, sequence: one.queue.publish(content) }, never);
      one.run("worker");
      await clock.step(4_000);
      return one;
    }

    it("takes the next assignment from memory, and removes its message after the claim", async () => {
      const one = await blocked();
      assert.equal(one.phase(first), "starting 1");
      assert.deepEqual(one.slots.held(), [first.id]);
      assert.equal(one.queue.deliveries(2), 0);
      await one.claim(first);
      await one.clock.step(0);
      assert.equal(one.events().at(-1), "acked");
      assert.equal(one.queue.size, 2);
      assert.equal(one.phase(second), "queued", "there is no slot for it");
      one.slots.release(first.id);
      await one.clock.step(4_000);
      assert.equal(one.phase(second), "starting 1");
    });

    it("goes on telling of the message, and never gives it up", async () => {
      const one = await blocked();
      for (const assignment of [first, second]) {
        await one.claim(assignment);
        one.slots.release(assignment.id);
        await one.clock.step(4_000);
      }
      await one.clock.step(60_000);
      assert.ok(one.unknownKeys.length >= 4, String(one.unknownKeys));
      assert.deepEqual(new Set(one.unknownKeys), new Set(["gitea-task-41"]));
      assert.equal(
        one.queue.answers().some(({ sequence, word }) => sequence === 1 && word !== "again"),
        false,
      );
    });

    it("waits in hand for its time without taking a place, once the queue is about to give it up", async () => {
      const clock = createFakeClock();
      const one = createLaneUnderTest({ capacity: 1, clock, queue: createFakeQueue(clock, 1) });
      open.push(one);
      one.queue.publish(unreadable);
      one.queue.age(1, 600);
      const content = aContent();
      await one.assignments.offer({ ...content, sequence: one.queue.publish(content) }, never);
      one.run("worker");
      await clock.step(60_000);
      assert.equal(one.queue.deliveries(1), 1);
      assert.equal(one.phase(content.assignment), "starting 1");
    });

    it("tries an assignment from memory again when its time has come", async () => {
      const clock = createFakeClock();
      const one = createLaneUnderTest({ capacity: 1, clock, queue: createFakeQueue(clock, 1) });
      open.push(one);
      one.queue.publish(unreadable);
      const content = aContent();
      await one.assignments.offer({ ...content, sequence: one.queue.publish(content) }, never);
      one.backend.failNext("create", new BackendError("retryable", "exceeded", { reason: "quota" }));
      one.run("worker");
      await clock.step(10_000);
      assert.deepEqual(one.backend.called("create").length, 1);
      await clock.step(12_000);
      assert.deepEqual(one.backend.called("create").length, 2);
      assert.equal(one.events().at(-1), "backend_ready");
    });

    it("does so also while it is no assignment whose task cannot be told of", async () => {
      const clock = createFakeClock();
      const one = createLaneUnderTest({ capacity: 1, clock, queue: createFakeQueue(clock, 1) });
      open.push(one);
      one.failNextUnreadable(new Error("Gitea is away"));
      one.queue.publish({ kind: "invalid", reason: "it is torn", assignmentId: "gitea-task-41" });
      const content = aContent();
      await one.assignments.offer({ ...content, sequence: one.queue.publish(content) }, never);
      one.run("worker");
      await clock.step(4_000);
      assert.equal(one.queue.deliveries(1), 1);
      assert.equal(one.phase(content.assignment), "starting 1");
    });

    it("takes nothing from memory once the message is gone", async () => {
      const clock = createFakeClock();
      const one = createLaneUnderTest({ capacity: 2, clock, queue: createFakeQueue(clock, 1) });
      open.push(one);
      one.queue.publish(unreadable);
      one.run("worker");
      await clock.step(1_000);
      one.queue.drop(1);
      await clock.step(30_000);
      const content = aContent();
      await one.assignments.offer({ ...content, sequence: 7 }, never);
      await clock.step(10_000);
      assert.equal(one.phase(content.assignment), "queued", "its message has to come");
    });
  });

  it("works on deliveries beside each other", async () => {
    const one = started({ capacity: 2 });
    const release = one.backend.hold("create");
    publish(one, 2);
    await one.clock.step(0);
    assert.equal(one.backend.called("create").length, 2);
    release();
  });

  it("ends only after what is in hand has been handed back", async () => {
    const one = started({ capacity: 3 });
    publish(one, 3);
    await one.clock.step(0);
    await one.stop();
    assert.deepEqual(
      one.queue.answers().map(({ word }) => word),
      ["again", "again", "again"],
    );
    assert.equal(one.backend.world.stored.size, 3);
  });

  it("hands back what was delivered while it was asked to stop", async () => {
    const clock = createFakeClock();
    const queue = createFakeQueue(clock);
    const delivered = Promise.withResolvers<void>();
    const stopping = new AbortController();
    const worker = createWorker({
      kind: "pod",
      queue: {
        next: async (backend, options) => {
          await delivered.promise;
          return queue.next(backend, options, never);
        },
        remove: (...args) => queue.remove(...args),
      },
      slots: createSlots(1),
      assignments: { all: () => [] },
      process: () => Promise.reject(new Error("it is not to be worked on")),
      report: (_, error) => assert.fail(error),
      times: defaultTimes,
      clock,
    });
    const running = worker.run(stopping.signal);
    queue.publish(aContent());
    stopping.abort();
    delivered.resolve();
    await running;
    assert.deepEqual(queue.answers(), [{ sequence: 1, word: "again", ms: 0 }]);
  });

  it("B-41 has two lanes that share nothing: a full or broken one does not hold up the other", async () => {
    const clock = createFakeClock();
    const store = createFakeRecordStore();
    const shared = {
      clock,
      store,
      queue: createFakeQueue(clock),
      assignments: createAssignments({ store, clock }),
    };
    const pod = started({ ...shared, kind: "pod", capacity: 1 });
    const vm = started({ ...shared, kind: "vm", capacity: 1 });
    const release = pod.backend.hold("list");
    const waiting = aContent({ taskId: 50n, backend: "vm" });
    publish(pod, 2);
    shared.queue.publish(waiting);
    await clock.step(0);
    assert.deepEqual(pod.slots.held(), [first.id]);
    assert.deepEqual(vm.slots.held(), [waiting.assignment.id]);
    assert.equal(vm.events().at(-1), "backend_ready");
    await vm.claim(waiting.assignment);
    await clock.step(0);
    assert.equal(vm.events().at(-1), "acked");
    vm.slots.release(waiting.assignment.id);
    assert.deepEqual(pod.slots.held(), [first.id]);
    release();
    await clock.step(0);
    assert.equal(pod.events().at(-1), "backend_ready");
    assert.equal(shared.queue.deliveries(2), 0, "a free vm slot is none for a pod");
  });
});
