import assert from "node:assert/strict";
import { afterEach, describe, it } from "mocha";
import { defaultTimes } from "../../../controller/assignment/times.ts";
import { BackendError } from "../../../controller/backends/backend.ts";
import { inPhase } from "../../support/phases.ts";
import { aContent } from "../../fakes/fake-queue.ts";
import {
  createLaneUnderTest,
  type LaneUnderTest,
  type LaneUnderTestOptions,
  never,
} from "../../support/lane-under-test.ts";

const content = aContent();
const { assignment } = content;
const { id, taskId } = assignment;

describe("processing a delivery", () => {
  const open: LaneUnderTest[] = [];
  afterEach(async () => {
    for (const one of open.splice(0)) {
      await one.stop();
      assert.deepEqual(one.clock.pending(), [], "something still waits");
    }
  });
  function started(options: LaneUnderTestOptions = {}): LaneUnderTest {
    const one = createLaneUnderTest(options);
    open.push(one);
    one.run("worker");
    return one;
  }
  const errors = ({ log }: LaneUnderTest) =>
    log.lines
      .filter(({ message }) => message === "assignment processing error")
      .map(({ fields }) => String(fields["error"]));

  it("B-31 emits exactly these events, with these fields, from receipt to acknowledgement", async () => {
    const one = started();
    one.queue.publish(content);
    await one.clock.step(0);
    await one.claim(assignment);
    await one.clock.step(0);
    const executor = one.executor(assignment);
    const common = { component: "worker", backend: "pod", assignment: id };
    const transition = (event: string) => ({ ...common, event });
    const step = (event: string, name?: string, phase = "starting") => ({
      ...common,
      event,
      executor: name,
      phase,
    });
    assert.deepEqual(
      one.log.lines.map(({ fields }) => fields),
      [
        transition("received"),
        transition("capacity_acquired"),
        step("executor_absent", undefined, "queued"),
        step("executor_created", executor),
        step("identity_bound", executor),
        transition("backend_ready"),
        transition("runner_claimed"),
        transition("acked"),
      ],
    );
    assert.deepEqual(
      new Set(one.log.lines.map(({ message }) => message)),
      new Set(["assignment transition", "executor transition"]),
    );
    assert.equal(one.queue.size, 0);
    assert.deepEqual(one.slots.held(), [id], "the executor has the slot until it has ended");
  });

  it("B-37 acknowledges only after the claim is in the record", async () => {
    const one = started();
    const sequence = one.queue.publish(content);
    await one.clock.step(60_000);
    assert.deepEqual(one.queue.answers(), []);
    one.store.failNext("update", new Error("no answer"));
    await assert.rejects(one.claim(assignment));
    await one.clock.step(0);
    assert.deepEqual(one.queue.answers(), []);
    await one.claim(assignment);
    await one.clock.step(0);
    assert.deepEqual(one.queue.answers(), [{ sequence, word: "acknowledged" }]);
    assert.equal(one.store.stored.get(id)?.record.phase.name, "claimed");
  });

  it("asks Gitea before anything is started, and stores the attempt before the executor is created", async () => {
    const one = started();
    const release = one.backend.hold("create");
    one.queue.publish(content);
    await one.clock.step(0);
    assert.deepEqual(one.tasks.beats, [taskId]);
    assert.deepEqual(one.store.writes, ["queued", "starting"]);
    assert.equal(one.store.stored.get(id)?.record.phase.name, "starting");
    release();
  });

  it("B-32 hands a message back after 2 s when all slots are taken, and creates nothing", async () => {
    const one = started({ capacity: 1 });
    // Taken by somebody else between the pull and the look.
    await one.clock.step(0);
    one.slots.restore("gitea-task-1");
    one.queue.publish(content);
    await one.clock.step(0);
    assert.deepEqual(one.events(), ["received", "capacity_wait"]);
    assert.deepEqual(one.queue.answers(), [{ sequence: 1, word: "again", ms: 2_000 }]);
    assert.equal(one.log.lines.at(-1)?.fields["retry_delay"], 2);
    assert.deepEqual(one.backend.calls, []);
    assert.deepEqual(one.tasks.beats, []);
    one.slots.release("gitea-task-1");
    await one.clock.step(2_000);
    assert.equal(one.events().at(-1), "backend_ready");
  });

  it("B-33 hands back after 15 s, reports the error and gives the slot back when no executor came of it", async () => {
    const one = started();
    let released = 0;
    one.slots.onChange(() => {
      if (one.slots.held().length === 0) released++;
    });
    one.backend.failNext("create", new BackendError("retryable", "quota exceeded", { reason: "quota" }));
    one.queue.publish(content);
    await one.clock.step(0);
    assert.deepEqual(one.events(), ["received", "capacity_acquired", "backend_retry"]);
    assert.deepEqual(one.queue.answers(), [{ sequence: 1, word: "again", ms: 15_000 }]);
    assert.deepEqual(errors(one), ["quota exceeded"]);
    assert.equal(released, 1);
    assert.deepEqual(one.slots.held(), []);
  });

  it("B-33 keeps the slot when the executor exists though its creation failed, and finds it again", async () => {
    const one = started();
    one.backend.failNext("create", new BackendError("retryable", "no answer"), { done: true });
    one.queue.publish(content);
    await one.clock.step(0);
    assert.equal(one.events().at(-1), "backend_retry");
    assert.deepEqual(one.slots.held(), [id]);
    await one.clock.step(15_000);
    assert.equal(one.events().at(-1), "backend_ready");
    assert.deepEqual(one.events("executor transition").slice(-2), ["executor_found", "identity_bound"]);
    assert.equal(one.backend.world.stored.size, 1);
  });

  it("B-33 keeps the slot for a minute after a create that may still take effect, though no list shows it", async () => {
    const one = started();
    for (let i = 0; i < 9; i++) one.tasks.failNext("beat", new Error("no answer"));
    one.backend.failNext("create", new BackendError("retryable", "no answer"));
    await one.assignments.offer({ ...content, sequence: 1 }, never);
    one.tasks.says.set(taskId, "running");
    one.queue.publish(content);
    await one.clock.step(9 * 15_000);
    assert.equal(one.backend.called("create").length, 1, "Gitea answered only then");
    for (let i = 0; i < 9; i++) one.tasks.failNext("beat", new Error("no answer"));
    await one.clock.step(45_000);
    assert.deepEqual(one.slots.held(), [id]);
    await one.clock.step(15_000);
    assert.deepEqual(one.slots.held(), []);
  });

  it("B-33 keeps the slot as long as it is not known whether there is an executor", async () => {
    const one = started();
    one.backend.failNext("create", new BackendError("retryable", "no answer"));
    one.queue.publish(content);
    const release = one.backend.hold("create");
    await one.clock.step(0);
    one.backend.failNext("list", new BackendError("retryable", "no answer"));
    release();
    await one.clock.step(0);
    assert.equal(one.events().at(-1), "backend_retry");
    assert.deepEqual(one.slots.held(), [id]);
  });

  it("B-33 keeps the slot of an executor whose record cannot be read at the moment", async () => {
    const earlier = started();
    earlier.queue.publish(content);
    await earlier.clock.step(0);
    const one = started({ world: earlier.backend.world });
    one.slots.restore(id);
    one.store.failNext("create", new Error("no answer"));
    one.queue.publish(content);
    await one.clock.step(0);
    assert.equal(one.events().at(-1), "backend_retry");
    assert.deepEqual(one.slots.held(), [id]);
  });

  it("B-33 keeps the slot of an executor that was made just now, though a list that is older lacks it", async () => {
    const one = started();
    const old = await one.backend.list(never);
    const list = one.backend.list.bind(one.backend);
    one.backend.list = async () => old;
    one.queue.publish(content);
    await one.clock.step(0);
    assert.equal(one.backend.called("create").length, 1);
    assert.equal(one.events().at(-1), "backend_pending");
    assert.deepEqual(one.slots.held(), [id]);
    one.backend.list = list;
    await one.clock.step(2_000);
    assert.equal(one.events().at(-1), "backend_ready");
    assert.equal(one.backend.called("create").length, 1);
  });

  it("I3 makes no executor on a slot that a start restored beyond the capacity, and gives it back", async () => {
    const one = started({ capacity: 1 });
    one.assignments.restore({ record: { ...inPhase("starting"), assignment }, revision: 1 });
    one.slots.restore("gitea-task-1");
    one.slots.restore(id);
    one.queue.publish(content);
    await one.clock.step(0);
    assert.equal(one.events().at(-1), "backend_retry");
    assert.deepEqual(one.queue.answers(), [{ sequence: 1, word: "again", ms: 2_000 }]);
    assert.deepEqual(one.slots.held(), ["gitea-task-1"]);
    assert.deepEqual(one.backend.called("create"), []);
    one.slots.release("gitea-task-1");
    await one.clock.step(2_000);
    assert.equal(one.backend.called("create").length, 1);
  });

  it("B-34 hands back after 2 s while the identity has no target, keeps the slot, and binds later", async () => {
    const one = started();
    one.backend.bindable = false;
    one.queue.publish(content);
    await one.clock.step(0);
    assert.deepEqual(one.events().slice(2), ["identity_target_pending", "backend_pending"]);
    assert.deepEqual(one.queue.answers(), [{ sequence: 1, word: "again", ms: 2_000 }]);
    assert.deepEqual(one.slots.held(), [id]);
    assert.deepEqual(errors(one), []);
    one.backend.bindable = true;
    await one.clock.step(2_000);
    assert.equal(one.events().at(-1), "backend_ready");
    assert.equal(one.backend.called("create").length, 1);
  });

  it("B-35 hands back after 4 min without a claim; the next delivery finds the same executor", async () => {
    const one = started();
    one.queue.publish(content);
    await one.clock.step(4 * 60_000 - 1);
    assert.equal(one.events().at(-1), "backend_ready");
    await one.clock.step(1);
    const executor = one.executor(assignment);
    assert.equal(one.events().at(-1), "claim_timeout");
    assert.deepEqual(one.queue.answers(), [{ sequence: 1, word: "again", ms: 2_000 }]);
    assert.deepEqual(one.slots.held(), [id]);
    assert.deepEqual(errors(one), [`the executor ${executor} has not claimed its task`]);
    await one.clock.step(2_000);
    assert.deepEqual(one.events("executor transition").slice(-2), ["executor_found", "identity_bound"]);
    await one.claim(assignment);
    await one.clock.step(0);
    assert.equal(one.events().at(-1), "acked");
    assert.deepEqual(one.backend.called("create"), [executor]);
  });

  it("B-36 rejects what is no assignment for good, and takes no slot for it", async () => {
    const one = started();
    one.queue.publish({ kind: "invalid", reason: "the version 9 is unknown" });
    await one.clock.step(60_000);
    assert.deepEqual(one.queue.answers(), [{ sequence: 1, word: "rejected", reason: "invalid assignment" }]);
    assert.match(errors(one).join("\n"), /message 1 .*the version 9 is unknown/);
    assert.deepEqual(one.events(), []);
    assert.deepEqual(one.slots.held(), []);
  });

  it("B-36 tells of the task that it names before it rejects it, unless that has a record", async () => {
    const one = started();
    one.queue.publish(content);
    await one.clock.step(0);
    const reason = "it was changed after it was sealed";
    for (const assignmentId of [id, "gitea-task-43"])
      one.queue.publish({ kind: "invalid", reason, assignmentId });
    await one.clock.step(0);
    assert.deepEqual(one.unreadable, [{ assignmentId: "gitea-task-43", reason }]);
    assert.deepEqual(
      one.queue.answers().map(({ sequence, word }) => [sequence, word]),
      [
        [2, "rejected"],
        [3, "rejected"],
      ],
    );
  });

  it("B-36 holds on to one whose task cannot be told of, for a while and not for ever", async () => {
    const one = started();
    const message = {
      kind: "invalid",
      reason: "the version 9 is unknown",
      assignmentId: "gitea-task-43",
    } as const;
    one.queue.publish(message);
    one.failNextUnreadable(new Error("Gitea is away"));
    await one.clock.step(0);
    assert.deepEqual(one.queue.answers(), [{ sequence: 1, word: "again", ms: defaultTimes.retryMs }]);
    await one.clock.step(defaultTimes.retryMs);
    assert.equal(one.unreadable.length, 1);
    one.queue.publish(message);
    for (let i = 0; i < 30; i++) one.failNextUnreadable(new Error("Gitea does not take it"));
    await one.clock.step(30 * defaultTimes.retryMs);
    assert.equal(one.queue.deliveries(2), 20);
    assert.deepEqual(one.queue.answers().at(-1), {
      sequence: 2,
      word: "rejected",
      reason: "invalid assignment",
    });
    assert.equal(one.unreadable.length, 1);
  });

  it("B-36 rejects other content under a known id for good, and lets the known one go on", async () => {
    const one = started();
    one.queue.publish(content);
    await one.clock.step(0);
    await one.claim(assignment);
    await one.clock.step(0);
    one.queue.publish(aContent({ jobKey: "deploy" }));
    await one.clock.step(60_000);
    assert.deepEqual(one.queue.answers().at(-1), {
      sequence: 2,
      word: "rejected",
      reason: "conflicting assignment",
    });
    assert.equal(one.phase(assignment), "claimed 1");
    assert.equal(one.backend.called("create").length, 1);
  });

  it("B-36 rejects other content also while the known one is in hand", async () => {
    const one = started();
    one.queue.publish(content);
    await one.clock.step(0);
    one.queue.publish(aContent({ jobKey: "deploy" }));
    await one.clock.step(60_000);
    await one.claim(assignment);
    await one.clock.step(60_000);
    assert.deepEqual(
      one.queue.answers().filter(({ word }) => word !== "again"),
      [
        { sequence: 1, word: "acknowledged" },
        { sequence: 2, word: "rejected", reason: "conflicting assignment" },
      ],
    );
  });

  it("never gives up on a message whose key is missing, and reports the key", async () => {
    const one = started();
    one.queue.publish({ kind: "unknown-key", keyId: "0badcafe", assignmentId: id });
    await one.clock.step(31_000);
    assert.deepEqual(
      one.queue.answers(),
      [1, 2, 3].map(() => ({ sequence: 1, word: "again", ms: 15_000 })),
    );
    assert.match(errors(one).join("\n"), /key 0badcafe/);
  });

  it("says that it is still at it every 15 s, as long as the message is in hand and no longer", async () => {
    const one = started();
    one.queue.publish(content);
    await one.clock.step(46_000);
    const progress = () => one.queue.words.filter(({ word }) => word === "in progress").length;
    assert.equal(progress(), 3);
    await one.claim(assignment);
    await one.clock.step(60_000);
    assert.equal(progress(), 3);
  });

  it("acknowledges again when the acknowledgement's outcome is open, and creates nothing for it", async () => {
    const one = started();
    one.queue.publish(content);
    await one.clock.step(0);
    one.queue.failNext("acknowledge", new Error("no answer"));
    await one.claim(assignment);
    await one.clock.step(0);
    assert.equal(one.events().at(-1), "backend_retry");
    await one.clock.step(15_000);
    assert.deepEqual(one.events().slice(-3), ["received", "runner_claimed", "acked"]);
    assert.equal(one.backend.called("create").length, 1);
    assert.deepEqual(one.slots.held(), [id]);
  });

  it("reports an acknowledgement that is not confirmed", async () => {
    const one = started();
    one.queue.publish(content);
    await one.clock.step(0);
    one.queue.denyNextAck();
    await one.claim(assignment);
    await one.clock.step(0);
    assert.equal(one.events().at(-1), "runner_claimed");
    assert.deepEqual(errors(one), ["the queue did not confirm the acknowledgement"]);
  });

  it("waits in hand from delivery 500 on, so that the queue never gives up on a message", async () => {
    const one = started();
    one.queue.publish(content);
    one.queue.age(1, 499);
    for (let i = 0; i < 3; i++)
      one.backend.failNext("create", new BackendError("retryable", "quota exceeded"));
    await one.clock.step(44_000);
    assert.deepEqual(one.events().filter((event) => event === "backend_retry").length, 3);
    assert.deepEqual(one.queue.answers(), []);
    assert.ok(one.queue.words.length >= 2, "it is in progress");
    await one.clock.step(1_000);
    assert.equal(one.events().at(-1), "backend_ready");
    assert.equal(one.queue.deliveries(1), 1);
  });

  it("hands everything back at shutdown, also what waits in hand, and leaves executors alone", async () => {
    const one = started();
    const other = aContent({ taskId: 43n });
    one.queue.publish(content);
    await one.clock.step(0);
    one.queue.publish(other);
    one.queue.age(2, 600);
    one.backend.failNext("create", new BackendError("retryable", "quota exceeded"));
    await one.clock.step(0);
    assert.deepEqual(one.queue.answers(), []);
    await one.stop();
    assert.deepEqual(
      one.queue
        .answers()
        .map(({ sequence, word }) => `${sequence} ${word}`)
        .toSorted(),
      ["1 again", "2 again"],
    );
    assert.deepEqual(one.backend.called("delete"), []);
    assert.deepEqual(one.backend.called("kill"), []);
    assert.equal(one.backend.world.stored.size, 1);
    assert.equal(
      one.events().filter((event) => event === "backend_retry").length,
      1,
      "a shutdown is no error",
    );
  });

  it("takes a claim that comes while it looks, though the executor ended right after it", async () => {
    const one = started();
    one.queue.publish(content);
    await one.clock.step(0);
    const release = one.backend.hold("list");
    const name = one.executor(assignment);
    one.backend.end(name);
    await one.clock.step(0);
    await one.claim(assignment);
    release();
    await one.clock.step(0);
    assert.deepEqual(one.events().slice(-2), ["runner_claimed", "acked"]);
  });

  it("does not wait for ever for a backend that never answers", async () => {
    const one = started();
    const release = one.backend.hold("list");
    one.slots.restore(id);
    await one.assignments.offer({ ...content, sequence: 1 }, never);
    one.queue.publish(content);
    await one.clock.step(defaultTimes.callMs - 1);
    assert.deepEqual(errors(one), []);
    await one.clock.step(1);
    assert.match(errors(one).join(), /^no answer within 30 s/);
    release();
  });
});
