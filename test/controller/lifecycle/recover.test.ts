import assert from "node:assert/strict";
import { describe, it } from "mocha";
import type { Assignment } from "../../../controller/assignment/assignment.ts";
import { executorEnvironment } from "../../../controller/assignment/executor-environment.ts";
import { defaultTimes as times } from "../../../controller/assignment/times.ts";
import type { Attempt } from "../../../controller/identity/capability.ts";
import { BackendError } from "../../../controller/backends/backend.ts";
import { createAssignments } from "../../../controller/lifecycle/assignments.ts";
import {
  recover,
  type RecoverOptions,
  type UnreadableMessage,
} from "../../../controller/lifecycle/recover.ts";
import { systemClock } from "../../../controller/platform/clock.ts";
import { createFakeBackend } from "../../fakes/fake-backend.ts";
import { createFakeClock } from "../../fakes/fake-clock.ts";
import { createFakeRecordStore } from "../../fakes/fake-record-store.ts";
import { createFakeStream } from "../../fakes/fake-stream.ts";
import { createRecordingLogger } from "../../fakes/recording-logger.ts";
import { anAssignment, anAttempt, anExecutorMetadata, aRecord, testStart } from "../../support/builders.ts";
import { aStoredTask, soon, useJetStream } from "../../support/jetstream.ts";
import { useNats } from "../../support/nats.ts";
import { anEvent, inPhase } from "../../support/phases.ts";
import { never } from "../../support/reconciler-under-test.ts";

const facade = { url: "https://facade.example.org:8443", spiffeId: "spiffe://example.org/controller" };
const compressedTask = Buffer.from("a task");
const messageOf = (assignment: Assignment) => ({
  kind: "assignment" as const,
  assignment,
  fetchedAt: testStart,
  compressedTask,
});
const assignment = anAssignment();
const { id } = assignment;

/** What an earlier controller left behind, and slots that only note what is restored. */
function leftBehind(options: Partial<RecoverOptions> = {}) {
  const clock = createFakeClock();
  const store = createFakeRecordStore();
  const stream = createFakeStream();
  const pod = createFakeBackend({ kind: "pod", clock });
  const vm = createFakeBackend({ kind: "vm", clock });
  const slots = { pod: new Set<string>(), vm: new Set<string>() };
  const log = createRecordingLogger();
  const assignments = createAssignments({ store, clock });
  const invalid: { readonly key: string }[] = [];
  const all: RecoverOptions = {
    records: { list: async () => ({ ...(await store.list()), invalid }) },
    backends: [
      { backend: pod, slots: { restore: (held) => void slots.pod.add(held) } },
      { backend: vm, slots: { restore: (held) => void slots.vm.add(held) } },
    ],
    queue: stream,
    assignments,
    times,
    clock,
    log,
    ...options,
  };
  return {
    store,
    stream,
    pod,
    vm,
    clock,
    slots,
    log,
    assignments,
    invalid,
    recovered: () => recover(all, never),
    recordOf: (one: Assignment) => assignments.get(one.id)?.record,
    taskOf: (one: Assignment) => assignments.get(one.id)?.compressedTask,
    executor: async (one: Assignment, attempt: Attempt = anAttempt()) => {
      const backend = one.backend === "pod" ? pod : vm;
      const metadata = anExecutorMetadata({ assignment: one, attempt });
      const environment = executorEnvironment(one, "x", facade);
      return backend.create({ metadata, environment, deadlineAt: Infinity }, never);
    },
  };
}

describe("recovering", () => {
  it("restores records, slots, and the tasks that nobody has claimed, and writes nothing", async () => {
    const left = leftBehind();
    const [running, waiting, onVm, ended] = [
      anAssignment({ taskId: 1n }),
      anAssignment({ taskId: 2n }),
      anAssignment({ taskId: 3n, backend: "vm" }),
      anAssignment({ taskId: 4n }),
    ];
    const claimed = inPhase("claimed");
    left.store.overwrite({ ...claimed, assignment: running });
    left.store.overwrite(aRecord({ assignment: waiting }));
    left.store.overwrite({ ...inPhase("starting"), assignment: onVm, sequence: 2 });
    left.store.overwrite({ ...claimed, assignment: ended });
    for (const each of [running, onVm, ended]) await left.executor(each);
    left.pod.end([...left.pod.world.stored.keys()][1] ?? "");
    left.stream.put(messageOf(waiting));
    left.stream.put(messageOf(onVm));
    assert.deepEqual(await left.recovered(), { scannedTo: 2, undecryptable: 0, unreadable: new Set() });
    assert.deepEqual(left.slots, { pod: new Set([running.id, ended.id]), vm: new Set([onVm.id]) });
    assert.deepEqual(left.recordOf(running)?.phase, claimed.phase);
    assert.equal(left.taskOf(running), undefined);
    assert.equal(left.taskOf(waiting), compressedTask);
    assert.equal(left.taskOf(onVm), compressedTask, "its executor is about to ask for it");
    assert.deepEqual(left.store.writes, []);
  });

  it("removes the message of a task that was claimed or whose end is decided, and only that", async () => {
    const left = leftBehind();
    const all = [1n, 2n, 3n, 4n].map((taskId) => anAssignment({ taskId }));
    const phases = ["claimed", "ending", "finished"] as const;
    for (const [index, one] of all.entries()) {
      left.stream.put(messageOf(one));
      const name = phases[index];
      if (name !== undefined) left.store.overwrite({ ...inPhase(name), assignment: one });
    }
    await left.recovered();
    assert.deepEqual([...left.stream.messages.keys()], [4]);
    assert.equal(all[3] && left.recordOf(all[3])?.phase.name, "queued");
  });

  it("starts though one backend is away or does not answer, holds the slots that records know of, and says so", async () => {
    const left = leftBehind();
    const onVm = anAssignment({ taskId: 2n, backend: "vm" });
    left.store.overwrite(inPhase("claimed"));
    await left.executor(onVm);
    left.pod.hold("list");
    const recovering = left.recovered();
    await left.clock.step(times.callMs);
    await recovering;
    assert.deepEqual(left.slots, { pod: new Set([id]), vm: new Set([onVm.id]) });
    const line = left.log.lines.find(({ message }) => message === "backend lifecycle error");
    assert.deepEqual(line?.fields, { backend: "pod", error: "no answer within 30 s" });
    assert.equal(left.recordOf(onVm)?.phase.name, "adopted");
  });

  it("I4 takes a record that cannot be read for lost: its executor is adopted, its message taken in", async () => {
    const left = leftBehind();
    const [waiting, nothingLeft] = [anAssignment({ taskId: 2n }), anAssignment({ taskId: 3n })];
    for (const { id: key } of [assignment, waiting, nothingLeft]) left.invalid.push({ key });
    left.stream.put(messageOf(assignment));
    left.stream.put(messageOf(waiting));
    await left.executor(assignment);
    const { unreadable } = await left.recovered();
    assert.equal(left.recordOf(assignment)?.phase.name, "adopted");
    assert.equal(left.recordOf(waiting)?.phase.name, "queued");
    assert.deepEqual(left.slots.pod, new Set([id]));
    assert.equal(left.stream.messages.size, 2);
    assert.deepEqual([...left.store.stored.keys()].toSorted(), [waiting.id, id], "a record of nothing");
    assert.deepEqual(unreadable, new Set([id, waiting.id, nothingLeft.id]), "what may name a stored report");
  });

  it("leaves what is no assignment, what it cannot decrypt, and what conflicts with a record, to the worker", async () => {
    const sealed: unknown[] = [];
    const left = leftBehind({ onSealed: (message) => void sealed.push(message) });
    const claimed = anAssignment({ taskId: 43n });
    left.store.overwrite(aRecord());
    left.store.overwrite({ ...inPhase("claimed"), assignment: claimed });
    left.stream.put({ kind: "invalid", reason: "it is not an envelope" });
    left.stream.put({ kind: "unknown-key", assignmentId: "gitea-task-77" });
    left.stream.put(messageOf(anAssignment({ jobKey: "deploy" })));
    left.stream.put(messageOf({ ...claimed, jobKey: "deploy" }));
    assert.deepEqual(await left.recovered(), { scannedTo: 4, undecryptable: 1, unreadable: new Set() });
    assert.deepEqual(sealed, [{ sequence: 2, assignmentId: "gitea-task-77" }]);
    assert.equal(left.stream.messages.size, 4);
    assert.deepEqual(left.recordOf(assignment), aRecord());
    assert.equal(left.taskOf(assignment), undefined);
  });

  it("writes down where a message is that an earlier controller stored anew without coming to say so", async () => {
    const left = leftBehind();
    left.store.overwrite(aRecord({ sequence: 7 }));
    left.stream.put(messageOf(assignment));
    await left.recovered();
    assert.equal(left.recordOf(assignment)?.sequence, 1);
    assert.equal(left.store.stored.get(id)?.record.sequence, 1);
  });

  describe("executors without a record", () => {
    it("I10 adopts one that lives, holds its slot, and has no task for it", async () => {
      const left = leftBehind();
      await left.executor(assignment, anAttempt({ number: 2 }));
      await left.recovered();
      assert.deepEqual(left.recordOf(assignment)?.phase, {
        name: "adopted",
        attempt: anAttempt({ number: 2 }),
        since: testStart,
      });
      assert.deepEqual(left.slots.pod, new Set([id]));
      assert.equal(left.taskOf(assignment), undefined);
    });

    it("I10 adopts it with its task if its message is there, which stays until it claims", async () => {
      const left = leftBehind();
      await left.executor(assignment);
      left.stream.put(messageOf(assignment));
      await left.recovered();
      assert.equal(left.recordOf(assignment)?.phase.name, "adopted");
      assert.equal(left.recordOf(assignment)?.sequence, 1);
      assert.equal(left.taskOf(assignment), compressedTask);
      assert.equal(left.stream.messages.size, 1);
      const next = leftBehind();
      next.store.overwrite(left.recordOf(assignment) ?? aRecord());
      next.stream.put(messageOf(assignment));
      await next.recovered();
      assert.equal(next.taskOf(assignment), compressedTask, "after another restart as well");
    });

    it("adopts one that has ended too: it may have run the job", async () => {
      const left = leftBehind();
      const { name } = await left.executor(assignment);
      left.pod.end(name);
      left.stream.put(messageOf(assignment));
      await left.recovered();
      assert.equal(left.recordOf(assignment)?.phase.name, "adopted");
    });

    it("leaves one whose task is over to the reconciler, and a message that says otherwise to the worker", async () => {
      const left = leftBehind();
      const { name } = await left.executor(assignment);
      await left.pod.markTerminal(name, never);
      const other = anAssignment({ taskId: 43n });
      await left.executor(other);
      left.stream.put(messageOf({ ...other, jobKey: "deploy", spiffeId: "spiffe://example.org/ci/x/y/z" }));
      await left.recovered();
      assert.equal(left.recordOf(assignment), undefined);
      assert.equal(left.recordOf(other)?.phase.name, "queued");
    });
  });

  describe("a message that nobody can read", () => {
    const unreadable = (assignmentId: string) =>
      ({ kind: "invalid", reason: "its seal is broken", assignmentId }) as const;

    it("is told of if it names a task without record and executor, and only then", async () => {
      const told: UnreadableMessage[] = [];
      const left = leftBehind({ onUnreadable: async (message) => void told.push(message) });
      const [known, running] = [anAssignment({ taskId: 1n }), anAssignment({ taskId: 2n })];
      left.store.overwrite(aRecord({ assignment: known }));
      await left.executor(running);
      left.invalid.push({ key: "gitea-task-3" });
      for (const one of [known.id, running.id, "gitea-task-3", "gitea-task-4"])
        left.stream.put(unreadable(one));
      left.stream.put({ kind: "invalid", reason: "it is not an envelope" });
      await left.recovered();
      assert.deepEqual(told, [{ assignmentId: "gitea-task-4", reason: "its seal is broken" }]);
      assert.equal(left.stream.messages.size, 5);
    });

    it("keeps nobody from starting, whatever comes of telling", async () => {
      const left = leftBehind({ onUnreadable: () => Promise.reject(new Error("Gitea is away")) });
      left.stream.put(unreadable("gitea-task-4"));
      left.stream.put(messageOf(assignment));
      await left.recovered();
      assert.notEqual(left.recordOf(assignment), undefined);
      assert.ok(left.log.lines.some(({ fields }) => fields["error"] === "Gitea is away"));
    });
  });

  it("may be done again after it failed half-way", async () => {
    const left = leftBehind();
    await left.executor(assignment);
    const other = anAssignment({ taskId: 43n });
    left.stream.put(messageOf(other));
    left.stream.put(messageOf(assignment));
    left.store.failNext("create", new Error("no answer"), { done: true });
    await assert.rejects(left.recovered(), /no answer/);
    left.pod.failNext("list", new BackendError("retryable", "the API server is away"));
    await left.recovered();
    assert.equal(left.recordOf(other)?.phase.name, "queued");
    assert.equal(left.recordOf(assignment)?.phase.name, "queued", "its reconciler will find its executor");
    assert.equal(left.taskOf(other), compressedTask);
  });

  describe("on real JetStream", () => {
    const nats = useNats();
    const jetStream = useJetStream(nats);

    it("I10 a restart loses nothing: records, claims, tasks, messages and executors without a record are back", async () => {
      const opened = await jetStream.open();
      const queue = opened.queue();
      const backend = createFakeBackend({ clock: systemClock });
      const controller = () => {
        const records = opened.records();
        const assignments = createAssignments({
          store: {
            ...records,
            remove: async (one, signal) => void (await records.remove(one, undefined, signal)),
          },
          clock: systemClock,
        });
        const held: string[] = [];
        const options: RecoverOptions = {
          records,
          backends: [{ backend, slots: { restore: (one) => void held.push(one) } }],
          queue,
          assignments,
          times,
          clock: systemClock,
          log: opened.log,
        };
        return { assignments, held, recovered: () => recover(options, soon()) };
      };
      const first = controller();
      const [done, unclaimed, lost] = [1n, 2n, 3n].map((taskId) => aStoredTask({ taskId }));
      assert.ok(done && unclaimed && lost);
      for (const task of [done, unclaimed]) {
        const { sequence } = await queue.publish(task, soon());
        await first.assignments.offer({ ...task, sequence }, soon());
      }
      await queue.publish(lost, soon());
      const { id: doneId } = done.assignment;
      const apply = (event: Parameters<typeof first.assignments.apply>[1]) =>
        first.assignments.within(doneId, () => first.assignments.apply(doneId, event, soon()));
      await apply({ ...anEvent.attempt_begun, nonce: anAttempt().nonce });
      // The claim is the last thing that the first controller did.
      await apply(anEvent.claimed);
      for (const one of [done, lost])
        await backend.create(
          {
            metadata: anExecutorMetadata({ assignment: one.assignment }),
            environment: executorEnvironment(one.assignment, "x", facade),
            deadlineAt: Infinity,
          },
          never,
        );

      const second = controller();
      assert.deepEqual(await second.recovered(), { scannedTo: 3, undecryptable: 0, unreadable: new Set() });
      assert.deepEqual(second.assignments.get(doneId)?.record, first.assignments.get(doneId)?.record);
      assert.equal(await queue.has(1, doneId, soon()), false);
      const task = second.assignments.get(unclaimed.assignment.id)?.compressedTask;
      assert.deepEqual(Buffer.from(task ?? []), unclaimed.compressedTask);
      const adopted = second.assignments.get(lost.assignment.id);
      assert.equal(adopted?.record.phase.name, "adopted");
      assert.deepEqual(Buffer.from(adopted.compressedTask ?? []), lost.compressedTask);
      assert.deepEqual(new Set(second.held), new Set([doneId, lost.assignment.id]));
    });
  });
});
