import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { describe, it } from "mocha";
import type { AssignmentQueue } from "../../../controller/queue/assignment-queue.ts";
import type { Delivery } from "../../../controller/queue/delivery.ts";
import { seal } from "../../../controller/queue/envelope.ts";
import { QueueUnavailableError, TaskTooLargeError } from "../../../controller/queue/errors.ts";
import { createStreams } from "../../../controller/queue/prepare-streams.ts";
import { wantedStreams } from "../../../controller/queue/streams.ts";
import { aStoredTask, soon, testKeyRing, useJetStream } from "../../support/jetstream.ts";
import { useNats } from "../../support/nats.ts";

const maxPayload = 256 * 1024;

async function scanned(queue: AssignmentQueue) {
  return Array.fromAsync(queue.scan(soon()));
}

function assignmentIdOf({ content }: Pick<Delivery, "content">): string | undefined {
  return content.kind === "assignment" ? content.assignment.id : content.assignmentId;
}

describe("the queue of assignments", () => {
  const nats = useNats({ maxPayload });
  const jetStream = useJetStream(nats);

  /** The next message, which must be there. */
  async function taken(queue: AssignmentQueue, backend: "pod" | "vm" = "pod"): Promise<Delivery> {
    const delivery = await queue.next(backend, { expiresMs: 30_000 }, soon());
    assert.ok(delivery !== undefined, "no message came");
    return delivery;
  }

  async function assertEmpty(queue: AssignmentQueue, backend: "pod" | "vm" = "pod") {
    assert.equal(await queue.next(backend, { expiresMs: 30 }, soon()), undefined);
  }

  describe("storing", () => {
    it("delivers what was published, as it was", async () => {
      const queue = (await jetStream.open()).queue();
      const task = aStoredTask();
      assert.deepEqual(await queue.publish(task, soon()), { sequence: 1, duplicate: false });
      const delivery = await taken(queue);
      assert.equal(delivery.sequence, 1);
      assert.equal(delivery.deliveryCount, 1);
      const { compressedTask, ...rest } = task;
      assert.ok(delivery.content.kind === "assignment");
      assert.partialDeepStrictEqual(delivery.content, rest);
      assert.deepEqual(Buffer.from(delivery.content.compressedTask), compressedTask);
    });

    it("knows a repeated assignment again", async () => {
      const queue = (await jetStream.open()).queue();
      await queue.publish(aStoredTask(), soon());
      assert.deepEqual(await queue.publish(aStoredTask(), soon()), { sequence: 1, duplicate: true });
      assert.equal((await queue.position(soon())).messages, 1);
    });

    it("stores an assignment again whose message got lost, once", async () => {
      const queue = (await jetStream.open()).queue();
      const { sequence } = await queue.publish(aStoredTask(), soon());
      await queue.remove(sequence, aStoredTask().assignment.id, soon());
      const repeated = await queue.publish(aStoredTask(), soon());
      assert.equal(repeated.duplicate, true, "the server takes it for the lost one");
      assert.deepEqual(await scanned(queue), []);
      const replacement = { ...aStoredTask(), replaces: sequence };
      assert.deepEqual(await queue.publish(replacement, soon()), { sequence: 2, duplicate: false });
      assert.deepEqual(await queue.publish(replacement, soon()), { sequence: 2, duplicate: true });
    });

    it("refuses a task that is too large for the server before sending it, and takes the largest", async () => {
      const opened = await jetStream.open();
      const queue = opened.queue();
      const bytesBeside = async () => {
        const task = { ...aStoredTask(), compressedTask: randomBytes(maxPayload) };
        const error = await queue.publish(task, soon()).catch((reason: unknown) => reason);
        assert.ok(error instanceof TaskTooLargeError);
        assert.equal(error.limit, maxPayload);
        return error.size - maxPayload;
      };
      const largest = { ...aStoredTask(), compressedTask: randomBytes(maxPayload - (await bytesBeside())) };
      assert.equal((await queue.publish(largest, soon())).sequence, 1);
      const larger = { ...largest, compressedTask: randomBytes(largest.compressedTask.length + 1) };
      await assert.rejects(queue.publish(larger, soon()), { size: maxPayload + 1, limit: maxPayload });
      const [message] = await scanned(queue);
      assert.equal(message?.sequence, 1);
      assert.equal(opened.log.lines.length, 1, "the server has nothing to complain about");
    });

    it("refuses a task that is too large for the stream", async () => {
      const { link, settings, queue } = await jetStream.open();
      const manager = await link.nats.jetstreamManager();
      await manager.streams.update(settings.stream, { max_msg_size: 1000 });
      const task = { ...aStoredTask(), compressedTask: randomBytes(2000) };
      await assert.rejects(queue().publish(task, soon()), (error) => {
        assert.ok(error instanceof TaskTooLargeError);
        return error.limit === 1000 && error.size > 2000;
      });
    });

    it("finds out by asking again whether a task was stored that the server never answered for", async () => {
      const opened = await jetStream.open();
      const hasty = opened.queue({ times: { requestMs: 100 } });
      await nats.pause();
      await assert.rejects(hasty.publish(aStoredTask(), soon()), QueueUnavailableError);
      nats.resume();
      assert.deepEqual(await opened.queue().publish(aStoredTask(), soon()), { sequence: 1, duplicate: true });
    });

    it("is unavailable while the stream is full, or missing", async () => {
      const { link, settings, queue } = await jetStream.open();
      const manager = await link.nats.jetstreamManager();
      await manager.streams.update(settings.stream, { max_msgs: 1 });
      await queue().publish(aStoredTask(), soon());
      const second = aStoredTask({ taskId: 43n });
      await assert.rejects(queue().publish(second, soon()), QueueUnavailableError);
      await manager.streams.delete(settings.stream);
      await assert.rejects(queue().publish(second, soon()), QueueUnavailableError);
      await assert.rejects(scanned(queue()), QueueUnavailableError);
      await assert.rejects(queue().position(soon()), QueueUnavailableError);
    });
  });

  describe("delivering", () => {
    it("B-30 serves pod and vm independently, each up to its capacity", async () => {
      const queue = (await jetStream.open({ capacity: 1 })).queue();
      for (const taskId of [1n, 2n]) await queue.publish(aStoredTask({ taskId }), soon());
      await queue.publish(aStoredTask({ taskId: 3n, backend: "vm" }), soon());
      const first = await taken(queue, "pod");
      assert.equal(assignmentIdOf(first), "gitea-task-1");
      await assertEmpty(queue, "pod");
      assert.equal(assignmentIdOf(await taken(queue, "vm")), "gitea-task-3");
      assert.equal(await first.acknowledge(soon()), true);
      assert.equal(assignmentIdOf(await taken(queue, "pod")), "gitea-task-2");
    });

    it("gives back at once, or later", async () => {
      const queue = (await jetStream.open()).queue();
      await queue.publish(aStoredTask(), soon());
      (await taken(queue)).retryLater(0);
      const second = await taken(queue);
      assert.equal(second.deliveryCount, 2);
      const since = performance.now();
      second.retryLater(200);
      assert.equal((await taken(queue)).deliveryCount, 3);
      assert.ok(performance.now() - since >= 190);
    });

    it("B-30 keeps a message whose progress is reported, and delivers it again when it is not", async () => {
      // The server's clock is real: longer than a busy machine keeps us from reporting.
      const queue = (await jetStream.open({ ackWaitMs: 2_000 })).queue();
      await queue.publish(aStoredTask(), soon());
      const delivery = await taken(queue);
      const beat = setInterval(() => delivery.inProgress(), 50);
      const early = await queue.next("pod", { expiresMs: 2_500 }, soon());
      clearInterval(beat);
      assert.equal(early, undefined);
      assert.equal((await taken(queue)).deliveryCount, 2);
    });

    it("reports no progress on what was given back", async () => {
      const queue = (await jetStream.open()).queue();
      await queue.publish(aStoredTask(), soon());
      const delivery = await taken(queue);
      delivery.retryLater(150);
      const beat = setInterval(() => delivery.inProgress(), 20);
      const again = await taken(queue).finally(() => clearInterval(beat));
      assert.equal(again.deliveryCount, 2);
    });

    it("acknowledges with a confirmation, as often as it is asked", async () => {
      const queue = (await jetStream.open()).queue();
      await queue.publish(aStoredTask(), soon());
      const delivery = await taken(queue);
      assert.equal(await delivery.acknowledge(soon()), true);
      assert.equal(await delivery.acknowledge(soon()), true);
      assert.deepEqual(await scanned(queue), []);
    });

    it("acknowledges what was removed meanwhile", async () => {
      const queue = (await jetStream.open()).queue();
      const { sequence } = await queue.publish(aStoredTask(), soon());
      const delivery = await taken(queue);
      assert.equal(await queue.remove(sequence, "gitea-task-42", soon()), "removed");
      assert.equal(await delivery.acknowledge(soon()), true);
    });

    it("leaves the open outcome of an acknowledgement to be asked again", async () => {
      const opened = await jetStream.open();
      const queue = opened.queue({ times: { requestMs: 600 } });
      await queue.publish(aStoredTask(), soon());
      const delivery = await taken(queue);
      await nats.pause();
      await assert.rejects(delivery.acknowledge(soon()), QueueUnavailableError);
      nats.resume();
      // The server may need longer than one request for what it missed.
      const again = () =>
        delivery.acknowledge(soon()).catch((error: unknown) => {
          assert.ok(error instanceof QueueUnavailableError, String(error));
        });
      let acknowledged = await again();
      while (acknowledged === undefined) acknowledged = await again();
      assert.equal(acknowledged, true);
      assert.deepEqual(await scanned(opened.queue()), []);
    });

    it("acknowledges no other task's message in a stream that was made anew", async () => {
      const { link, settings, queue } = await jetStream.open();
      await queue().publish(aStoredTask({ taskId: 1n }), soon());
      const old = await taken(queue());
      const { created } = await queue().position(soon());
      await (await link.nats.jetstreamManager()).streams.delete(settings.stream);
      await createStreams(link, wantedStreams(settings), soon());
      assert.notEqual((await queue().position(soon())).created, created);
      await queue().publish(aStoredTask({ taskId: 2n }), soon());
      const current = await taken(queue());
      assert.equal(current.sequence, old.sequence);
      assert.equal(await old.acknowledge(soon()), false);
      assert.equal((await scanned(queue())).length, 1);
      assert.equal(await current.acknowledge(soon()), true);
    });

    it("delivers again after a crash of the server", async () => {
      const { log, queue } = await jetStream.open({ ackWaitMs: 500 });
      await queue().publish(aStoredTask(), soon());
      await taken(queue());
      await nats.kill();
      await nats.start();
      await log.line("nats connection is back");
      const again = await taken(queue());
      assert.equal(assignmentIdOf(again), "gitea-task-42");
      // The server writes its count down a little later: a crash in between loses it, but never the message.
      assert.ok(again.deliveryCount <= 2, String(again.deliveryCount));
      assert.equal(await again.acknowledge(soon()), true);
    });

    it("has nothing to give as long as nothing comes", async () => {
      const queue = (await jetStream.open()).queue();
      const since = performance.now();
      assert.equal(await queue.next("vm", { expiresMs: 100 }, soon()), undefined);
      assert.ok(performance.now() - since >= 95);
    });

    it("hands a message back when it comes after an abort", async () => {
      const queue = (await jetStream.open()).queue();
      const stop = new AbortController();
      const pulling = queue.next("pod", { expiresMs: 30_000 }, stop.signal);
      stop.abort(new Error("enough"));
      await queue.publish(aStoredTask(), soon());
      await assert.rejects(pulling, /^Error: enough$/);
      assert.equal((await taken(queue)).deliveryCount, 2);
    });

    it("ends an aborted pull when it expires", async () => {
      const queue = (await jetStream.open()).queue();
      const stop = new AbortController();
      const pulling = queue.next("pod", { expiresMs: 100 }, stop.signal);
      stop.abort(new Error("enough"));
      await assert.rejects(pulling, /^Error: enough$/);
    });

    it("hands a message back that a slow server sends after the pull was given up", async () => {
      const opened = await jetStream.open();
      await opened.queue().publish(aStoredTask(), soon());
      await nats.pause();
      const hasty = opened.queue({ times: { requestMs: 50 } });
      const pulling = hasty.next("pod", { expiresMs: 50 }, soon());
      await assert.rejects(pulling, QueueUnavailableError);
      nats.resume();
      assert.equal((await taken(opened.queue())).deliveryCount, 2);
    });

    it("is unavailable at once when the connection goes during a pull, or is away", async () => {
      const { log, queue } = await jetStream.open();
      const pulling = queue().next("pod", { expiresMs: 60_000 }, soon());
      const outcome = assert.rejects(pulling, QueueUnavailableError);
      await nats.kill();
      await outcome;
      await assert.rejects(queue().next("pod", { expiresMs: 60_000 }, soon()), QueueUnavailableError);
      await assert.rejects(queue().publish(aStoredTask(), soon()), QueueUnavailableError);
      await nats.start();
      await log.line("nats connection is back");
      await queue().publish(aStoredTask(), soon());
      assert.equal((await taken(queue())).deliveryCount, 1);
    });

    it("is unavailable at once when consumer or stream are missing, before a pull or during it", async () => {
      const { link, settings, queue } = await jetStream.open();
      const manager = await link.nats.jetstreamManager();
      const pulling = queue().next("vm", { expiresMs: 60_000 }, soon());
      const outcome = assert.rejects(pulling, /^QueueUnavailableError: .*409 .*deleted/i);
      await link.nats.flush();
      await manager.consumers.delete(settings.stream, "vm");
      await outcome;
      const next = (backend: "pod" | "vm") => queue().next(backend, { expiresMs: 60_000 }, soon());
      await assert.rejects(next("vm"), /^QueueUnavailableError: .*vm .*503/);
      await manager.streams.delete(settings.stream);
      await assert.rejects(next("pod"), /^QueueUnavailableError: .*pod .*503/);
    });
  });

  describe("what it does not believe", () => {
    it("B-36 garbage is invalid, is rejected for good, and stops nothing behind it", async () => {
      const { link, settings, queue } = await jetStream.open();
      await link.nats.jetstream().publish(`${settings.subjectBase}.pod`, "hunter2 is garbage");
      await queue().publish(aStoredTask(), soon());
      const kinds = (await scanned(queue())).map(({ sequence, content }) => [sequence, content.kind]);
      assert.deepEqual(kinds, [
        [1, "invalid"],
        [2, "assignment"],
      ]);
      const garbage = await taken(queue());
      assert.deepEqual(garbage.content, {
        kind: "invalid",
        reason: "it does not begin with a line of JSON",
      });
      const advisory = link.nats.subscribe("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.>", { max: 1 });
      garbage.reject("invalid assignment");
      for await (const message of advisory) {
        assert.partialDeepStrictEqual(message.json(), { stream_seq: 1, reason: "invalid assignment" });
      }
      assert.equal(assignmentIdOf(await taken(queue())), "gitea-task-42");
      assert.deepEqual(
        (await scanned(queue())).map(({ sequence }) => sequence),
        [2],
      );
    });

    it("B-04 a message is invalid that was copied to another backend's subject", async () => {
      const { link, settings, queue } = await jetStream.open();
      const bytes = seal(testKeyRing(1), aStoredTask({ backend: "pod" }), randomBytes);
      await link.nats.jetstream().publish(`${settings.subjectBase}.vm`, bytes);
      assert.deepEqual((await taken(queue(), "vm")).content, {
        kind: "invalid",
        reason: "it lies under another backend's subject",
        assignmentId: "gitea-task-42",
      });
    });

    it("B-04 a message is invalid whose task makes another assignment, or none", async () => {
      const queue = (await jetStream.open()).queue();
      const other = aStoredTask({ jobKey: "deploy" }).compressedTask;
      await queue.publish({ ...aStoredTask({ taskId: 1n }), compressedTask: other }, soon());
      await queue.publish({ ...aStoredTask({ taskId: 2n }), compressedTask: Buffer.from("{}") }, soon());
      const [first, second] = await scanned(queue);
      assert.partialDeepStrictEqual(first?.content, {
        kind: "invalid",
        reason: "its task says otherwise than its envelope",
        assignmentId: "gitea-task-1",
      });
      assert.ok(second?.content.kind === "invalid");
      assert.match(second.content.reason, /^its task makes no assignment/);
    });

    it("is opened with an older key of the ring, and waits for a key that is unknown", async () => {
      const { queue } = await jetStream.open();
      await queue({ keyRing: testKeyRing(1) }).publish(aStoredTask(), soon());
      const stranger = await taken(queue({ keyRing: testKeyRing(2) }));
      assert.deepEqual(stranger.content, {
        kind: "unknown-key",
        keyId: testKeyRing(1)[0].id,
        assignmentId: "gitea-task-42",
      });
      stranger.retryLater(0);
      const rotated = await taken(queue({ keyRing: testKeyRing(2, 1) }));
      assert.equal(rotated.content.kind, "assignment");
    });
  });

  describe("scanning and removing", () => {
    it("reads all messages in order, those in hand too, and those behind a sequence", async () => {
      const queue = (await jetStream.open()).queue();
      for (const taskId of [1n, 2n, 3n, 4n]) {
        await queue.publish(aStoredTask({ taskId, backend: taskId === 2n ? "vm" : "pod" }), soon());
      }
      await taken(queue);
      await queue.remove(3, "gitea-task-3", soon());
      const named = (messages: readonly { sequence: number; content: Delivery["content"] }[]) =>
        messages.map((message) => `${message.sequence} ${assignmentIdOf(message)}`);
      assert.deepEqual(named(await scanned(queue)), ["1 gitea-task-1", "2 gitea-task-2", "4 gitea-task-4"]);
      assert.deepEqual(named(await Array.fromAsync(queue.scanAfter(2, soon()))), ["4 gitea-task-4"]);
      assert.partialDeepStrictEqual(await queue.position(soon()), { lastSequence: 4, messages: 3 });
    });

    it("ends a scan when the signal is aborted", async () => {
      const queue = (await jetStream.open()).queue();
      for (const taskId of [1n, 2n]) await queue.publish(aStoredTask({ taskId }), soon());
      const stop = new AbortController();
      const scanning = async () => {
        for await (const { sequence } of queue.scan(stop.signal)) {
          assert.equal(sequence, 1);
          stop.abort(new Error("enough"));
        }
      };
      await assert.rejects(scanning, /^Error: enough$/);
    });

    it("removes a message only if it names the assignment, and is content with one that is gone", async () => {
      const queue = (await jetStream.open()).queue();
      const { sequence } = await queue.publish(aStoredTask(), soon());
      assert.equal(await queue.remove(sequence, "gitea-task-41", soon()), "other");
      assert.equal((await scanned(queue)).length, 1);
      assert.equal(await queue.remove(sequence, "gitea-task-42", soon()), "removed");
      assert.equal(await queue.remove(sequence, "gitea-task-42", soon()), "gone");
      assert.equal(await queue.remove(99, "gitea-task-42", soon()), "gone");
      assert.equal(
        await queue.remove(0, "gitea-task-42", soon()),
        "gone",
        "a record without a message has 0",
      );
      await assertEmpty(queue);
    });

    it("tells whether a message is there and names the assignment", async () => {
      const queue = (await jetStream.open()).queue();
      const { sequence } = await queue.publish(aStoredTask(), soon());
      assert.equal(await queue.has(sequence, "gitea-task-42", soon()), true);
      assert.equal(await queue.has(sequence, "gitea-task-41", soon()), false);
      assert.equal(await queue.has(sequence + 1, "gitea-task-42", soon()), false);
      assert.equal(await queue.has(0, "gitea-task-42", soon()), false);
      await queue.remove(sequence, "gitea-task-42", soon());
      assert.equal(await queue.has(sequence, "gitea-task-42", soon()), false);
    });
  });
});
