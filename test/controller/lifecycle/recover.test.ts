import assert from "node:assert/strict";
import { afterEach, describe, it } from "mocha";
import type { Assignment } from "../../../controller/assignment/assignment.ts";
import { executorEnvironment } from "../../../controller/assignment/executor-environment.ts";
import {
  type AssignmentRecord,
  currentAttempt,
  enterClaim,
  finish,
} from "../../../controller/assignment/record.ts";
import { defaultTimes } from "../../../controller/assignment/times.ts";
import { BackendError } from "../../../controller/backends/backend.ts";
import { createAssignments } from "../../../controller/lifecycle/assignments.ts";
import { recover, type RecoverOptions } from "../../../controller/lifecycle/recover.ts";
import { systemClock } from "../../../controller/platform/clock.ts";
import { runTasks } from "../../../controller/platform/task-group.ts";
import { createFakeBackend, createFakeBackendWorld } from "../../fakes/fake-backend.ts";
import { createFakeClock } from "../../fakes/fake-clock.ts";
import { aContent, createFakeQueue } from "../../fakes/fake-queue.ts";
import { createFakeRecordStore } from "../../fakes/fake-record-store.ts";
import { createFakeTasks } from "../../fakes/fake-tasks.ts";
import { createRecordingLogger } from "../../fakes/recording-logger.ts";
import { anAttempt, anAssignment, anExecutorMetadata, aRecord } from "../../support/builders.ts";
import { aStoredTask, soon, useJetStream } from "../../support/jetstream.ts";
import { createTestLane, never } from "../../support/lane-under-test.ts";
import { useNats } from "../../support/nats.ts";

const facade = { url: "https://facade.example.org:8443", spiffeId: "spiffe://example.org/controller" };
const starting = { name: "starting", attempt: anAttempt(), since: 1 } as const;
const claim = { instance: "instance-of-the-first", logRows: 3, at: 2 };
const claimed = { name: "claimed", attempt: anAttempt(), claim } as const;

/** What an earlier controller left behind, and slots that only note what is restored. */
function leftBehind() {
  const clock = createFakeClock();
  const store = createFakeRecordStore();
  const queue = createFakeQueue(clock);
  const pod = createFakeBackend({ kind: "pod", clock });
  const vm = createFakeBackend({ kind: "vm", clock });
  const slots = { pod: [] as string[], vm: [] as string[] };
  const log = createRecordingLogger();
  const assignments = createAssignments(store);
  const invalid: { readonly key: string; readonly reason: string }[] = [];
  const options: RecoverOptions = {
    records: { list: async () => ({ ...(await store.list()), invalid }) },
    backends: [
      { backend: pod, slots: { restore: (id) => void slots.pod.push(id) } },
      { backend: vm, slots: { restore: (id) => void slots.vm.push(id) } },
    ],
    queue,
    assignments,
    log,
  };
  return {
    store,
    queue,
    pod,
    vm,
    slots,
    log,
    assignments,
    invalid,
    recovered: () => recover(options, never),
    executor: (assignment: Assignment) => {
      const backend = assignment.backend === "pod" ? pod : vm;
      const metadata = anExecutorMetadata({ assignment });
      return backend.create({ metadata, environment: executorEnvironment(assignment, "x", facade) }, never);
    },
  };
}

describe("recovering", () => {
  it("restores records, the slots of living executors of each backend, and tasks that nobody has claimed", async () => {
    const left = leftBehind();
    const [running, waiting, onVm, ended] = [
      anAssignment({ taskId: 1n }),
      anAssignment({ taskId: 2n }),
      anAssignment({ taskId: 3n, backend: "vm" }),
      anAssignment({ taskId: 4n }),
    ];
    left.store.overwrite(aRecord({ assignment: running, phase: claimed }));
    left.store.overwrite(aRecord({ assignment: waiting }));
    left.store.overwrite(aRecord({ assignment: onVm, phase: starting }));
    left.store.overwrite(aRecord({ assignment: ended, phase: claimed }));
    for (const each of [running, onVm, ended]) await left.executor(each);
    left.pod.end([...left.pod.world.stored.keys()][1] ?? "");
    left.queue.publish(aContent(waiting));
    left.queue.publish(aContent(onVm));
    await left.recovered();
    assert.deepEqual(left.slots, { pod: [running.id], vm: [onVm.id] });
    const taskOf = ({ id }: Assignment) => left.assignments.get(id)?.compressedTask?.length;
    assert.equal(left.assignments.get(running.id)?.record.phase, claimed);
    assert.equal(taskOf(running), undefined);
    assert.equal(taskOf(waiting), 6);
    assert.equal(taskOf(onVm), 6, "its executor is about to ask for it");
    assert.deepEqual(left.store.writes, []);
  });

  it("removes the message of a task that was claimed or is over, and only that", async () => {
    const left = leftBehind();
    const contents = [1n, 2n, 3n].map((taskId) => aContent({ taskId }));
    const [first, second, third] = contents.map(({ assignment }) => assignment);
    assert.ok(first && second && third);
    for (const content of contents) left.queue.publish(content);
    left.store.overwrite(aRecord({ assignment: first, phase: claimed }));
    left.store.overwrite(finish(aRecord({ assignment: second, phase: claimed }), "success", 3));
    await left.recovered();
    const rest = await Array.fromAsync(left.queue.scan());
    assert.deepEqual(
      rest.map(({ sequence }) => sequence),
      [3],
    );
    assert.equal(left.assignments.get(third.id)?.record.phase.name, "queued");
  });

  it("starts though one backend is away, and says so", async () => {
    const left = leftBehind();
    const onVm = anAssignment({ backend: "vm" });
    await left.executor(onVm);
    left.pod.failNext("list", new BackendError("retryable", "the API server is away"));
    await left.recovered();
    assert.deepEqual(left.slots, { pod: [], vm: [onVm.id] });
    const line = left.log.lines.find(({ message }) => message === "backend lifecycle error");
    assert.deepEqual(line?.fields, { backend: "pod", error: "the API server is away" });
  });

  it("starts though a record cannot be read, leaves its message, and says which record", async () => {
    const left = leftBehind();
    const [broken, fine] = [aContent({ taskId: 1n }), aContent({ taskId: 2n })];
    left.invalid.push({ key: broken.assignment.id, reason: "it is not JSON" });
    left.queue.publish(broken);
    left.queue.publish(fine);
    await left.recovered();
    assert.equal(left.assignments.get(broken.assignment.id), undefined);
    assert.notEqual(left.assignments.get(fine.assignment.id), undefined);
    assert.equal(left.queue.size, 2);
    assert.deepEqual(left.log.lines[0]?.fields, { key: broken.assignment.id, reason: "it is not JSON" });
  });

  it("leaves what is no assignment, and what conflicts with a record, to the worker", async () => {
    const left = leftBehind();
    left.store.overwrite(aRecord());
    left.queue.publish({ kind: "invalid", reason: "it is not an envelope" });
    left.queue.publish({ kind: "unknown-key", keyId: "0badcafe" });
    left.queue.publish(aContent({ jobKey: "deploy" }));
    await left.recovered();
    assert.equal(left.queue.size, 3);
    assert.deepEqual(
      left.assignments.all().map(({ record }) => record),
      [aRecord()],
    );
  });

  describe("on real JetStream", () => {
    const nats = useNats();
    const jetStream = useJetStream(nats);
    let stop = new AbortController();
    let running: Promise<void> = Promise.resolve();
    afterEach(async () => {
      stop.abort();
      await running;
      stop = new AbortController();
    });

    /** A controller's part: it recovers and then works until it is ended. */
    async function controller(
      opened: Awaited<ReturnType<typeof jetStream.open>>,
      world = createFakeBackendWorld(),
    ) {
      const queue = opened.queue();
      const records = opened.records();
      const log = createRecordingLogger();
      const assignments = createAssignments({
        ...records,
        remove: async (id, signal) => void (await records.remove(id, undefined, signal)),
      });
      const backend = createFakeBackend({ world, clock: systemClock });
      const lane = createTestLane({
        backend,
        capacity: 3,
        assignments,
        queue,
        tasks: createFakeTasks(),
        times: { ...defaultTimes, againMs: 20, reconcileMs: 50 },
        clock: systemClock,
        log,
      });
      await recover({ records, backends: [lane], queue, assignments, log }, soon());
      const changed = async (id: string, next: (record: AssignmentRecord) => AssignmentRecord) =>
        assignments.within(id, () => assignments.change(id, next, soon()));
      const enter = (record: AssignmentRecord) => {
        const outcome = enterClaim(record, claim);
        return outcome.kind === "claimed" ? outcome.record : record;
      };
      return {
        queue,
        assignments,
        backend,
        lane,
        log,
        run: (...names: readonly string[]) => {
          const all = [...lane.leaderTasks, ...lane.relayTasks];
          const tasks = all.filter(({ name }) => names.some((each) => name.endsWith(each)));
          running = runTasks(tasks, stop.signal);
        },
        end: async () => {
          stop.abort();
          await running;
          stop = new AbortController();
        },
        claim: (id: string) => changed(id, enter),
        finish: (id: string) => changed(id, (record) => finish(record, "success", 9)),
        event: async (event: string, assignment: string) => {
          for (let after = 0; ; after++) {
            const line = await log.line("assignment transition", after);
            after = log.lines.indexOf(line, after);
            if (line.fields["event"] === event && line.fields["assignment"] === assignment) return;
          }
        },
        until: async (holds: () => boolean) => {
          while (!holds()) await assignments.changed(soon());
        },
      };
    }

    it("I10 a restart loses no running job and doubles none: slots, claims, tasks and messages are back", async () => {
      const opened = await jetStream.open();
      const first = await controller(opened);
      const [done, unacked, unclaimed, queued] = [1n, 2n, 3n, 4n].map((taskId) => aStoredTask({ taskId }));
      assert.ok(done && unacked && unclaimed && queued);
      const ids = [done, unacked, unclaimed].map(({ assignment }) => assignment.id);
      const [doneId = "", unackedId = "", unclaimedId = ""] = ids;
      first.run("worker");
      for (const task of [done, unacked, unclaimed]) await first.queue.publish(task, soon());
      for (const id of ids) await first.event("backend_ready", id);
      await first.queue.publish(queued, soon());
      await first.claim(doneId);
      await first.event("acked", doneId);
      const names = [...first.backend.world.stored.keys()].toSorted();
      await first.end();
      // The claim is the last thing that the first controller did.
      await first.claim(unackedId);
      assert.equal((await first.queue.position(soon())).messages, 3);

      const second = await controller(opened, first.backend.world);
      assert.deepEqual(second.lane.slots.held().toSorted(), ids.toSorted());
      assert.equal(second.lane.slots.free(), 0);
      for (const id of [doneId, unackedId])
        assert.deepEqual(second.assignments.get(id)?.record, first.assignments.get(id)?.record);
      assert.deepEqual(second.assignments.get(doneId)?.record.phase, {
        name: "claimed",
        attempt: currentAttempt(first.assignments.get(doneId)?.record ?? aRecord()),
        claim,
      });
      const left = await Array.fromAsync(second.queue.scan(soon()));
      assert.deepEqual(
        left.map(({ sequence }) => sequence),
        [3, 4],
      );
      const task = second.assignments.get(unclaimedId)?.compressedTask;
      assert.deepEqual(Buffer.from(task ?? []), unclaimed.compressedTask);

      second.run("worker", "reconciler");
      await second.event("backend_ready", unclaimedId);
      await second.claim(unclaimedId);
      await second.event("acked", unclaimedId);
      assert.deepEqual(second.backend.called("create"), []);
      assert.deepEqual([...second.backend.world.stored.keys()].toSorted(), names);

      // A job that ends makes room for the one that waits.
      await second.finish(doneId);
      second.backend.end(names.find((name) => name.startsWith(`${doneId}-`)) ?? "");
      await second.event("backend_ready", queued.assignment.id);
      await second.until(() => second.assignments.get(doneId) === undefined);
      assert.equal(second.lane.slots.free(), 0);
      assert.equal(second.backend.called("create").length, 1);
    });
  });
});
