import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { defaultTimes } from "../../../controller/assignment/times.ts";
import { createAssignments } from "../../../controller/lifecycle/assignments.ts";
import { systemClock } from "../../../controller/platform/clock.ts";
import type { AssignmentQueue } from "../../../controller/queue/assignment-queue.ts";
import { createSlots } from "../../../controller/slots/slots.ts";
import { createWorker } from "../../../controller/worker/worker.ts";
import { createFakeRecordStore } from "../../fakes/fake-record-store.ts";
import { aStoredTask, soon, testKeyRing, useJetStream } from "../../support/jetstream.ts";
import { never } from "../../support/lane-under-test.ts";
import { useNats } from "../../support/nats.ts";

describe("a message that nobody can read, at a real server that lets one be unacknowledged", () => {
  const nats = useNats();
  const jetStream = useJetStream(nats);

  /** Our queue; before our task it holds a message that was sealed with another key. */
  async function blockedQueue(): Promise<{ readonly queue: AssignmentQueue; readonly sequence: number }> {
    const opened = await jetStream.open({ capacity: 1 });
    const task = aStoredTask({ taskId: 41n });
    await opened.queue({ keyRing: testKeyRing(2) }).publish(task, soon());
    const queue = opened.queue({ keyRing: testKeyRing(1) });
    const { sequence } = await queue.publish(aStoredTask(), soon());
    return { queue, sequence };
  }

  it("keeps the others away as long as it is handed back with a delay", async () => {
    const { queue } = await blockedQueue();
    const first = await queue.next("pod", { expiresMs: 5_000 }, soon());
    assert.equal(first?.content.kind, "unknown-key");
    first.retryLater(60_000);
    assert.equal(await queue.next("pod", { expiresMs: 500 }, soon()), undefined);
  });

  it("does not keep the worker from the others, which are taken from memory and removed from the stream", async () => {
    const { queue, sequence } = await blockedQueue();
    const assignments = createAssignments({ store: createFakeRecordStore(), clock: systemClock });
    await assignments.offer({ ...aStoredTask(), sequence }, never);
    const stop = new AbortController();
    const taken: string[] = [];
    const worker = createWorker({
      kind: "pod",
      queue,
      slots: createSlots(1),
      assignments,
      process: async (delivery) => {
        const { content } = delivery;
        if (content.kind !== "assignment") {
          delivery.retryLater(60_000);
          return;
        }
        taken.push(content.assignment.id);
        assert.equal(await delivery.acknowledge(soon()), true);
        stop.abort(new Error("the test is over"));
      },
      report: (_, error) => assert.fail(error),
      times: defaultTimes,
      clock: systemClock,
    });
    await worker.run(AbortSignal.any([stop.signal, AbortSignal.timeout(50_000)]));
    assert.deepEqual(taken, [aStoredTask().assignment.id]);
    const left = await Array.fromAsync(queue.scan(soon()));
    assert.deepEqual(
      left.map(({ content }) => content.kind),
      ["unknown-key"],
    );
  });
});
