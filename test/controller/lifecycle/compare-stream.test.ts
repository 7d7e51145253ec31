import assert from "node:assert/strict";
import { beforeEach, describe, it } from "mocha";
import type { Assignment } from "../../../controller/assignment/assignment.ts";
import type { AssignmentEvent } from "../../../controller/assignment/event.ts";
import { defaultTimes as times } from "../../../controller/assignment/times.ts";
import { type Assignments, createAssignments } from "../../../controller/lifecycle/assignments.ts";
import { type CompareStream, createCompareStream } from "../../../controller/lifecycle/compare-stream.ts";
import type { SealedMessage } from "../../../controller/lifecycle/sealed-messages.ts";
import { createFakeClock, type FakeClock } from "../../fakes/fake-clock.ts";
import { createFakeRecordStore, type FakeRecordStore } from "../../fakes/fake-record-store.ts";
import { createFakeStream, type FakeStream } from "../../fakes/fake-stream.ts";
import { createRecordingLogger, type RecordingLogger } from "../../fakes/recording-logger.ts";
import { anAssignment, aRecord, testStart } from "../../support/builders.ts";
import { anEvent, inPhase } from "../../support/phases.ts";
import { never } from "../../support/reconciler-under-test.ts";

const [first, second] = [anAssignment(), anAssignment({ taskId: 43n })];
const taskOf = (assignment: Assignment) => ({
  assignment,
  fetchedAt: testStart,
  compressedTask: Buffer.from(`the task of ${assignment.id}`),
});

describe("comparing the stream with what waits", () => {
  let clock: FakeClock;
  let store: FakeRecordStore;
  let stream: FakeStream;
  let assignments: Assignments;
  let log: RecordingLogger;
  let compare: CompareStream;
  let sealed: SealedMessage[];
  beforeEach(() => {
    clock = createFakeClock();
    store = createFakeRecordStore();
    stream = createFakeStream();
    log = createRecordingLogger();
    assignments = createAssignments({ store, clock });
    sealed = [];
    const onSealed = (message: SealedMessage) => void sealed.push(message);
    compare = createCompareStream({ queue: stream, assignments, onSealed, times, clock, log });
  });
  const pass = () => compare.pass(never);
  const recordOf = ({ id }: Assignment) => assignments.get(id)?.record;
  const apply = ({ id }: Assignment, event: AssignmentEvent) =>
    assignments.within(id, () => assignments.apply(id, event, never));
  /** As the scheduler does. */
  async function fetched(assignment: Assignment): Promise<number> {
    const task = taskOf(assignment);
    const { sequence } = await stream.publish(task, never);
    await assignments.offer({ ...task, sequence }, never);
    return sequence;
  }
  const called = (method: string) => stream.calls.filter((call) => call === method).length;
  const errors = () => log.lines.filter(({ level }) => level === "error").map(({ message }) => message);

  it("asks for nothing but the position while nothing moves, and writes nothing", async () => {
    await fetched(first);
    await pass();
    const { length } = stream.calls;
    for (let i = 0; i < 3; i++) await pass();
    assert.deepEqual(stream.calls.slice(length), ["position", "position", "position"]);
    assert.deepEqual(store.writes, ["queued"]);
  });

  for (const [what, loseIt] of [
    ["a single message", () => stream.drop(1)],
    ["the end of the stream", () => stream.loseTail(1)],
    ["the whole stream", () => stream.lose()],
  ] as const)
    it(`I10 stores what waits anew from memory after the loss of ${what}`, async () => {
      await fetched(first);
      await pass();
      loseIt();
      await pass();
      const sequence = recordOf(first)?.sequence ?? 0;
      assert.deepEqual(stream.messages.get(sequence), { kind: "assignment", ...taskOf(first) });
      assert.equal(recordOf(first)?.phase.name, "queued");
      assert.equal(store.stored.get(first.id)?.record.sequence, sequence);
      const published = called("publish");
      for (let i = 0; i < 2; i++) await pass();
      assert.equal(called("publish"), published);
      assert.equal(stream.messages.size, 1);
    });

  it("I10 notices a lost message though another one has taken its sequence", async () => {
    const third = anAssignment({ taskId: 44n });
    await fetched(first);
    await fetched(second);
    await pass();
    stream.loseTail(2);
    await fetched(third);
    for (let i = 0; i < 2; i++) await pass();
    assert.equal(stream.messages.size, 3);
    assert.deepEqual(stream.messages.get(recordOf(second)?.sequence ?? 0), {
      kind: "assignment",
      ...taskOf(second),
    });
  });

  it("I10 stores anew what is lost again just after it was stored anew", async () => {
    await fetched(first);
    await pass();
    for (let i = 0; i < 3; i++) {
      stream.loseTail(1);
      await pass();
      assert.ok(stream.messages.has(recordOf(first)?.sequence ?? 0));
    }
  });

  it("I10 notices that another message is where a lost one was", async () => {
    await fetched(first);
    await pass();
    stream.loseTail(1);
    await fetched(second);
    assert.equal(recordOf(first)?.sequence, recordOf(second)?.sequence);
    await pass();
    assert.notEqual(recordOf(first)?.sequence, recordOf(second)?.sequence);
    assert.equal(stream.messages.size, 2);
  });

  it("I10 notices that what came since the last look is lost, and the stream as it was then", async () => {
    await pass();
    await fetched(first);
    stream.loseTail(1);
    await pass();
    assert.ok(stream.messages.has(recordOf(first)?.sequence ?? 0));
  });

  it("I10 stores it anew also while its executor is on its way", async () => {
    await fetched(first);
    await apply(first, anEvent.attempt_begun);
    stream.lose();
    await pass();
    assert.equal(stream.messages.size, 1);
    assert.equal(recordOf(first)?.phase.name, "starting");
  });

  it("does not take another task's message at that sequence for it", async () => {
    await fetched(first);
    await pass();
    stream.lose();
    await fetched(second);
    await pass();
    assert.equal(recordOf(second)?.sequence, 1);
    assert.equal(recordOf(first)?.sequence, 2);
    assert.equal(stream.messages.size, 2);
  });

  it("stores it once though answers get lost, and goes on where the last try ended", async () => {
    await fetched(first);
    stream.drop(1);
    stream.failNext("publish", new Error("no answer"), { done: true });
    await pass();
    assert.equal(recordOf(first)?.sequence, 1);
    store.failNext("update", new Error("no answer"));
    await pass();
    await pass();
    assert.equal(recordOf(first)?.sequence, 2);
    assert.equal(stream.messages.size, 1);
    assert.equal(errors().length, 2);
  });

  it("fails a task of which no copy is left, saying so, and leaves one whose message only cannot be opened", async () => {
    stream.put({ kind: "unknown-key", assignmentId: second.id });
    store.overwrite(aRecord({ sequence: 9 }));
    store.overwrite(aRecord({ assignment: second, sequence: 1 }));
    for (const stored of store.stored.values()) assignments.restore(stored);
    await pass();
    const { phase } = recordOf(first) ?? {};
    assert.ok(phase?.name === "ending" && phase.end.by === "controller");
    assert.equal(phase.end.failure?.reason, "queue_lost");
    assert.equal(recordOf(second)?.phase.name, "queued");
  });

  it("leaves alone what is claimed or over: it needs no message", async () => {
    for (const [index, name] of (["adopted", "claimed", "ending", "finished"] as const).entries()) {
      const assignment = anAssignment({ taskId: BigInt(50 + index) });
      store.overwrite({ ...inPhase(name), assignment });
    }
    for (const stored of store.stored.values()) assignments.restore(stored);
    await pass();
    assert.deepEqual(stream.calls, ["position"]);
    assert.deepEqual(store.writes, []);
  });

  it("looks again as the assignment's actor: a message that is gone because it was claimed is not lost", async () => {
    await fetched(first);
    await apply(first, anEvent.attempt_begun);
    const { promise, resolve } = Promise.withResolvers<void>();
    const claiming = assignments.within(first.id, async () => {
      await promise;
      const attempt = recordOf(first)?.phase;
      assert.ok(attempt?.name === "starting");
      await assignments.apply(first.id, { ...anEvent.claimed, attempt: attempt.attempt }, never);
    });
    stream.drop(1);
    const passing = pass();
    resolve();
    await Promise.all([claiming, passing]);
    assert.equal(called("publish"), 1, "the scheduler's own");
    assert.equal(recordOf(first)?.phase.name, "claimed");
  });

  it("does not wait for one whose actor is busy longer than a call may take", async () => {
    await fetched(first);
    await fetched(second);
    stream.lose();
    const { promise, resolve } = Promise.withResolvers<void>();
    const stuck = assignments.within(first.id, () => promise);
    const passing = pass();
    await clock.step(times.callMs);
    await passing;
    assert.equal(stream.messages.size, 1);
    resolve();
    await stuck;
    await pass();
    assert.equal(stream.messages.size, 2);
  });

  it("takes in what a controller before us stored late, beyond what was read at the start", async () => {
    stream.put({ kind: "assignment", ...taskOf(first) });
    compare.scanned(1);
    await pass();
    assert.equal(recordOf(first), undefined, "the start has seen to it");
    stream.put({ kind: "assignment", ...taskOf(second) });
    stream.put({ kind: "unknown-key", assignmentId: "gitea-task-77" });
    stream.put({ kind: "invalid", reason: "it is not an envelope" });
    await pass();
    assert.equal(recordOf(second)?.phase.name, "queued");
    assert.equal(recordOf(second)?.sequence, 2);
    assert.equal(stream.messages.size, 4, "what cannot be read is the worker's");
    assert.deepEqual(sealed, [{ sequence: 3, assignmentId: "gitea-task-77" }]);
  });

  it("lets one that cannot be taken in stop no other, and tries it again", async () => {
    stream.put({ kind: "assignment", ...taskOf(first) });
    stream.put({ kind: "assignment", ...taskOf(second) });
    store.failNext("create", new Error("the record is unreadable"));
    await pass();
    assert.equal(recordOf(first), undefined);
    assert.equal(recordOf(second)?.phase.name, "queued");
    await pass();
    assert.equal(recordOf(first)?.phase.name, "queued");
  });

  it("says that the stream was made anew, and reads it from its beginning", async () => {
    await fetched(first);
    compare.scanned(1);
    await pass();
    stream.lose();
    // An operator puts an old backup back.
    stream.put({ kind: "assignment", ...taskOf(second) });
    await pass();
    assert.equal(errors().filter((message) => message.includes("made anew")).length, 1);
    assert.equal(recordOf(second)?.phase.name, "queued", "a beat comes before anything is created for it");
    assert.equal(recordOf(first)?.sequence, 2);
  });

  it("goes on by itself through outages", async () => {
    await fetched(first);
    const stop = new AbortController();
    const running = compare.run(stop.signal);
    await clock.step(0);
    stream.lose();
    stream.failNext("position", new Error("no answer"));
    await clock.step(times.compareStreamMs);
    assert.deepEqual(errors(), ["comparing the stream failed, trying again"]);
    assert.equal(stream.messages.size, 0);
    await clock.step(times.compareStreamMs);
    assert.equal(stream.messages.size, 1);
    stop.abort();
    await running;
  });
});
