import assert from "node:assert/strict";
import { afterEach, describe, it } from "mocha";
import { failureFor } from "../../../controller/assignment/failure.ts";
import type { AssignmentRecord, PhaseOf } from "../../../controller/assignment/record.ts";
import { defaultTimes } from "../../../controller/assignment/times.ts";
import { BackendError } from "../../../controller/backends/backend.ts";
import { aContent, createFakeQueue } from "../../fakes/fake-queue.ts";
import { createFakeClock } from "../../fakes/fake-clock.ts";
import type { Said } from "../../fakes/fake-tasks.ts";
import { anAttempt, anExecutorMetadata, testStart } from "../../support/builders.ts";
import { inPhase } from "../../support/phases.ts";
import {
  anEnvironment,
  createLaneUnderTest,
  type LaneUnderTest,
  type LaneUnderTestOptions,
  never,
} from "../../support/lane-under-test.ts";

const content = aContent();
const { assignment } = content;
const { id, taskId } = assignment;
const { retryMs, attemptDelayMs } = defaultTimes;
const minute = 60_000;

describe("ensuring an executor", () => {
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
  /** A lane whose executor is there and has not claimed. */
  async function waiting(options: LaneUnderTestOptions = {}): Promise<LaneUnderTest> {
    const one = started(options);
    one.queue.publish(content);
    await one.clock.step(0);
    assert.equal(one.phase(), "starting 1");
    return one;
  }
  const alive = ({ backend }: LaneUnderTest) =>
    [...backend.world.stored].filter(([, { state }]) => state.phase !== "ended").map(([name]) => name);
  /** What each create was told of the ones before it. */
  const toldBefore = ({ backend }: LaneUnderTest) =>
    backend.calls.filter(({ method }) => method === "create").map(({ mayBeUnderWay }) => mayBeUnderWay);
  const ending = (one: LaneUnderTest): PhaseOf<"ending"> => {
    const { phase } = one.record(assignment);
    assert.ok(phase.name === "ending", phase.name);
    return phase;
  };
  const verdict = (one: LaneUnderTest) => {
    const { end } = ending(one);
    assert.ok(end.by === "controller");
    return end;
  };

  it("gives an executor the deadline of its backend, from its attempt on", async () => {
    const one = await waiting({ timeoutMs: 30 * minute });
    const phase = one.record(assignment).phase as PhaseOf<"starting">;
    assert.equal(phase.deadlineAt, one.clock.now() + 30 * minute);
    assert.equal(one.backend.deadlineOf(one.executor(assignment)), phase.deadlineAt);
  });

  it("gives an executor no more time than Gitea leaves the task", async () => {
    const one = await waiting();
    const { endlessMs, endlessMarginMs } = defaultTimes;
    const deadline = one.backend.deadlineOf(one.executor(assignment));
    assert.equal(deadline, testStart + endlessMs - endlessMarginMs);
  });

  it("fails a task that has waited for too long to get its time, and asks for no executor", async () => {
    const one = started({ clock: createFakeClock(testStart + 166 * minute) });
    one.queue.publish(content);
    await one.clock.step(0);
    assert.equal(verdict(one).failure?.reason, "no_time_left");
    assert.equal(verdict(one).executorGone, true);
    assert.deepEqual(one.backend.called("create"), []);
    assert.equal(one.queue.size, 0);
  });

  it("replaces an executor that died before the claim, after deleting it, not at once", async () => {
    const one = await waiting();
    const first = one.executor(assignment);
    one.backend.end(first, "exited with code 1");
    await one.clock.step(attemptDelayMs - 1);
    assert.equal(one.phase(), "queued");
    assert.deepEqual([...one.backend.world.stored.keys()], [], "it is deleted at once");
    assert.deepEqual(one.slots.held(), []);
    await one.clock.step(1);
    assert.equal(one.phase(), "starting 2");
    assert.deepEqual(one.record(assignment).attempts, {
      begun: 2,
      burnt: 1,
      lost: failureFor("start_failed", "exited with code 1"),
    });
    const order = one.backend.calls.filter(({ method }) => method === "delete" || method === "create");
    assert.deepEqual(
      order.map(({ method, name }) => [method, name]),
      [
        ["create", first],
        ["delete", first],
        ["create", one.executor(assignment)],
      ],
    );
  });

  it("waits longer after each lost attempt", async () => {
    const one = await waiting();
    one.backend.end(one.executor(assignment));
    await one.clock.step(attemptDelayMs);
    one.backend.end(one.executor(assignment));
    await one.clock.step(2 * attemptDelayMs - 1);
    assert.equal(one.phase(), "queued");
    await one.clock.step(1);
    assert.equal(one.phase(), "starting 3");
  });

  it("names why an executor died, as its backend names it", async () => {
    const one = await waiting();
    one.backend.end(one.executor(assignment), "exit code 137", "oom");
    await one.clock.step(0);
    assert.equal(one.record(assignment).attempts.lost?.reason, "start_oom");
  });

  it("does not begin another attempt while an executor of a lost one lives, until that lingers", async () => {
    const one = await waiting();
    const first = one.executor(assignment);
    await one.apply(assignment, {
      type: "attempt_lost",
      attempt: anAttempt({ nonce: (one.record(assignment).phase as PhaseOf<"starting">).attempt.nonce }),
      failure: failureFor("too_slow", ""),
      burnt: true,
      retryAt: one.clock.now(),
    });
    for (let i = 0; i < 500; i++) one.backend.failNext("delete", new BackendError("retryable", "no answer"));
    await one.clock.step(defaultTimes.lingerMs - 1);
    assert.equal(one.phase(), "queued");
    assert.deepEqual(alive(one), [first]);
    assert.deepEqual(one.slots.held(), [id]);
    await one.clock.step(2 * retryMs);
    assert.equal(one.phase(), "starting 2");
    assert.equal(alive(one).length, 2);
  });

  it("replaces an executor that disappeared before the claim", async () => {
    const one = await waiting();
    one.backend.vanish(one.executor(assignment));
    await one.clock.step(defaultTimes.absentMs - 1);
    assert.equal(one.record(assignment).attempts.lost, undefined, "a list may be older than the executor");
    await one.clock.step(defaultTimes.againMs + defaultTimes.retryMs);
    assert.equal(one.record(assignment).attempts.lost?.reason, "deleted_before_claim");
    await one.clock.step(attemptDelayMs);
    assert.equal(one.phase(), "starting 2");
  });

  it("does not take an executor for gone that one list lacks", async () => {
    const one = await waiting();
    const name = one.executor(assignment);
    const stored = one.backend.world.stored.get(name);
    one.backend.vanish(name);
    await one.clock.step(0);
    assert.ok(stored !== undefined);
    one.backend.world.stored.set(name, stored);
    await one.clock.step(minute);
    assert.equal(one.phase(), "starting 1");
    assert.deepEqual(alive(one), [name]);
  });

  it("leaves an executor alone whose metadata does not hold: it may run", async () => {
    const one = await waiting();
    one.backend.spoil(one.executor(assignment));
    await one.clock.step(5 * minute);
    assert.equal(one.phase(), "starting 1");
    assert.equal(one.backend.called("create").length, 1);
    assert.deepEqual(one.backend.called("delete"), []);
  });

  it("gives up an executor whose metadata does not hold for as long as a start may take, and says so", async () => {
    const one = await waiting();
    const name = one.executor(assignment);
    one.backend.spoil(name);
    await one.clock.step(defaultTimes.startMs + minute);
    assert.equal(one.phase(), "starting 2");
    assert.deepEqual(one.backend.called("delete"), [name]);
    assert.match(JSON.stringify(one.record(assignment).attempts.lost), /metadata does not hold/);
  });

  it("B-62 never gives an executor the identity of another job that somebody has written on it", async () => {
    const one = started();
    one.backend.bindable = false;
    one.queue.publish(content);
    await one.clock.step(0);
    const name = one.executor(assignment);
    const { assignment: other } = aContent({ jobKey: "deploy" });
    const { phase } = one.record(assignment);
    assert.ok(phase.name === "starting");
    one.backend.relabel(name, anExecutorMetadata({ assignment: other, attempt: phase.attempt }));
    one.backend.bindable = true;
    await one.clock.step(2 * attemptDelayMs);
    const given = one.backend.calls.flatMap(({ spiffeId }) => spiffeId ?? []);
    assert.deepEqual([...new Set(given)], [assignment.spiffeId]);
    assert.equal(one.phase(), "starting 2");
    assert.deepEqual(one.backend.called("delete"), [name]);
  });

  it("asks Gitea before each attempt", async () => {
    const one = await waiting();
    one.backend.end(one.executor(assignment));
    await one.clock.step(attemptDelayMs);
    assert.deepEqual(one.tasks.beats, [taskId, taskId]);
  });

  it("fails the task after three executors that died before the claim, with what was seen", async () => {
    const one = await waiting();
    for (const how of ["exited with code 1", "out of memory", "exited with code 3"]) {
      one.backend.end(one.executor(assignment), how);
      await one.clock.step(2 * attemptDelayMs);
    }
    assert.deepEqual(verdict(one), {
      by: "controller",
      result: "failure",
      failure: { reason: "attempts_exhausted", evidence: "exited with code 3", last: "start_failed" },
      executorGone: false,
    });
    assert.equal(one.phase(), "ending 3");
    assert.equal(one.backend.called("create").length, 3);
    assert.equal(one.queue.size, 0, "nothing is left to be started");
    assert.equal(one.events().at(-1), "acked");
    assert.equal(one.events().includes("runner_claimed"), false, "nobody has claimed it");
  });

  it("burns no attempt while the backend refuses in passing, and asks under the same name", async () => {
    const one = started();
    for (let i = 0; i < 40; i++)
      one.backend.failNext("create", new BackendError("retryable", "exceeded quota", { reason: "quota" }));
    one.queue.publish(content);
    await one.clock.step(41 * retryMs);
    assert.equal(one.phase(), "starting 1");
    assert.equal(one.backend.world.stored.size, 1);
    assert.equal(one.record(assignment).attempts.burnt, 0);
    assert.equal(new Set(one.backend.called("create")).size, 1, "it has the same name each time");
    const [first, ...again] = toldBefore(one);
    assert.equal(first, undefined);
    assert.deepEqual([...new Set(again)], [true], "the backend hears that it was asked for before");
  });

  it("fails a task for which there was no room for an hour from its first try, with the reason", async () => {
    assert.equal(defaultTimes.pendingMs, 60 * minute);
    const one = started({ times: { pendingMs: 5 * minute } });
    for (let i = 0; i < 40; i++)
      one.backend.failNext("create", new BackendError("retryable", "exceeded quota", { reason: "quota" }));
    one.queue.publish(content);
    await one.clock.step(5 * minute - 1);
    assert.equal(one.phase(), "starting 1");
    await one.clock.step(retryMs);
    assert.equal(verdict(one).failure?.reason, "quota");
    assert.equal(verdict(one).failure?.evidence, "exceeded quota");
  });

  it("fails the task at once when the backend says that its executor can never be made", async () => {
    const one = started();
    one.backend.failNext("create", new BackendError("terminal", "no such tag", { reason: "image_missing" }));
    one.queue.publish(content);
    await one.clock.step(0);
    assert.deepEqual(verdict(one).failure, failureFor("image_missing", "no such tag"));
    assert.equal(one.backend.called("create").length, 1);
    await one.clock.step(retryMs);
    assert.equal(one.queue.size, 0);
  });

  it("tries three times what the backend refuses for good without saying what is wrong", async () => {
    const one = started();
    for (let i = 0; i < 3; i++) one.backend.failNext("create", new BackendError("terminal", "forbidden"));
    one.queue.publish(content);
    await one.clock.step(2 * minute);
    assert.equal(verdict(one).failure?.reason, "attempts_exhausted");
    assert.equal(verdict(one).failure?.last, "config_error");
    assert.equal(new Set(one.backend.called("create")).size, 3);
  });

  it("fails the task at once when its executor waits for what will never come", async () => {
    const one = started();
    one.backend.startsAtOnce = false;
    one.queue.publish(content);
    await one.clock.step(0);
    one.backend.wait(one.executor(assignment), failureFor("image_missing", "manifest unknown"));
    await one.clock.step(0);
    assert.equal(verdict(one).failure?.reason, "image_missing");
  });

  for (const said of ["cancelled", "success", "failure", "skipped", "gone"] as const satisfies Said[]) {
    it(`never starts a task of which Gitea says ${said}`, async () => {
      const one = started();
      one.tasks.says.set(taskId, said);
      one.queue.publish(content);
      await one.clock.step(minute);
      assert.deepEqual(one.backend.called("create"), []);
      assert.equal(one.phase(), said === "cancelled" ? "ending" : "finished");
      assert.equal(one.queue.size, 0);
      assert.deepEqual(one.tasks.ends, [], "the report is not the worker's");
    });
  }

  it("starts nothing while Gitea does not answer, and does then", async () => {
    const one = started();
    one.tasks.failNext("beat", new Error("no answer"));
    one.queue.publish(content);
    await one.clock.step(0);
    assert.equal(one.events().at(-1), "backend_retry");
    assert.deepEqual(one.backend.called("create"), []);
    assert.equal(one.phase(), "queued");
    assert.deepEqual(one.slots.held(), []);
    await one.clock.step(retryMs);
    assert.equal(one.events().at(-1), "backend_ready");
  });

  it("creates nothing when the record cannot be written", async () => {
    const one = started();
    one.store.failNext("update", new Error("no answer"));
    one.queue.publish(content);
    await one.clock.step(0);
    assert.deepEqual(one.backend.called("create"), []);
    await one.clock.step(retryMs);
    assert.equal(one.phase(), "starting 1");
    assert.equal(one.backend.world.stored.size, 1);
  });

  it("takes a claim that came before it saw the executor's end", async () => {
    const one = await waiting();
    const release = one.backend.hold("list");
    one.backend.end(one.executor(assignment));
    await one.clock.step(0);
    await one.claim(assignment);
    release();
    await one.clock.step(retryMs);
    assert.equal(one.phase(), "claimed 1");
    assert.equal(one.backend.called("create").length, 1);
    assert.deepEqual(one.backend.called("delete"), [], "the reconciler sees to a claimed one");
  });

  it("does not fail a task that is claimed while its failure is being decided", async () => {
    const one = await waiting();
    const { attempt } = one.record(assignment).phase as PhaseOf<"starting">;
    const busy = Promise.withResolvers<void>();
    const claiming = one.assignments.within(id, async () => {
      await busy.promise;
      const claim = { type: "claimed", attempt, instance: "the first", logRows: 0 } as const;
      await one.assignments.apply(id, claim, never);
    });
    one.backend.end(one.executor(assignment), "no such image", "image_missing");
    await one.clock.step(0);
    busy.resolve();
    await claiming;
    await one.clock.step(0);
    assert.equal(one.phase(), "claimed 1");
    assert.equal(one.events().at(-1), "acked");
  });

  it("does not fail a task whose claim another controller has stored, which we have not heard of", async () => {
    const one = await waiting();
    const record = one.record(assignment);
    assert.ok(record.phase.name === "starting");
    const { attempt, deadlineAt } = record.phase;
    const claim = { instance: "the first", logRows: 0, at: one.clock.now() };
    one.store.overwrite({ ...record, phase: { name: "claimed", attempt, claim, deadlineAt } });
    one.backend.end(one.executor(assignment), "no such image", "image_missing");
    await one.clock.step(retryMs);
    assert.equal(one.phase(), "claimed 1");
    assert.equal(one.queue.size, 0);
  });

  it("keeps no claim waiting for the answer to the create", async () => {
    const one = started();
    one.queue.publish(content);
    const release = one.backend.hold("create");
    await one.clock.step(0);
    await one.claim(assignment);
    await one.clock.step(0);
    assert.equal(one.phase(), "claimed 1");
    assert.equal(one.events().at(-1), "acked");
    release();
  });

  it("I6 gives up a create under way as soon as the task is cancelled", async () => {
    const one = started();
    one.queue.publish(content);
    const release = one.backend.hold("create");
    await one.clock.step(0);
    await one.apply(assignment, { type: "cancel_told" });
    await one.clock.step(0);
    assert.equal(one.events().at(-1), "acked");
    assert.equal(one.queue.size, 0);
    release();
    await one.clock.step(minute);
    assert.equal(one.backend.world.stored.size, 0, "its signal was aborted");
  });

  it("begins no create when the cancel was told while Gitea was asked", async () => {
    const one = started();
    const asked = Promise.withResolvers<void>();
    one.queue.publish(content);
    await one.assignments.offer({ ...content, sequence: 1 }, never);
    const holding = one.assignments.within(id, async () => {
      await asked.promise;
      await one.assignments.apply(id, { type: "cancel_told" }, never);
    });
    await one.clock.step(0);
    assert.deepEqual(one.tasks.beats, [taskId], "it said that the task runs");
    asked.resolve();
    await holding;
    await one.clock.step(0);
    assert.deepEqual(one.backend.called("create"), []);
    assert.equal(one.phase(), "ending");
  });

  it("replaces an executor that runs and does not claim its task in time", async () => {
    assert.equal(defaultTimes.startMs, 10 * minute);
    const one = await waiting({ times: { claimMs: 24_000, startMs: minute } });
    const name = one.executor(assignment);
    await one.clock.step(minute - 1);
    assert.deepEqual(alive(one), [name]);
    await one.clock.step(24_000 + attemptDelayMs);
    assert.equal(one.record(assignment).attempts.lost?.reason, "too_slow");
    await one.clock.step(attemptDelayMs);
    assert.equal(one.phase(), "starting 2");
    assert.deepEqual(alive(one), [one.executor(assignment)]);
  });

  it("lets an executor wait for room, and gives it its whole time after that", async () => {
    const one = started({ times: { claimMs: 24_000, startMs: minute, pendingMs: 6 * minute } });
    one.backend.startsAtOnce = false;
    one.queue.publish(content);
    await one.clock.step(0);
    const name = one.executor(assignment);
    one.backend.wait(name, failureFor("unschedulable", "0/3 nodes are available"));
    await one.clock.step(5 * minute);
    assert.deepEqual(alive(one), [name]);
    one.backend.start(name);
    await one.clock.step(50_000);
    assert.deepEqual(alive(one), [name]);
    await one.clock.step(40_000);
    assert.equal(one.record(assignment).attempts.burnt, 1);
  });

  it("fails a task whose executor got no room in time, with the reason, and burns no attempt", async () => {
    const one = started({ times: { claimMs: 24_000, pendingMs: 6 * minute } });
    one.backend.startsAtOnce = false;
    one.queue.publish(content);
    await one.clock.step(0);
    one.backend.wait(one.executor(assignment), failureFor("unschedulable", "0/3 nodes are available"));
    await one.clock.step(6 * minute + 30_000);
    assert.equal(verdict(one).failure?.reason, "unschedulable");
    assert.equal(one.record(assignment).attempts.burnt, 0);
  });

  it("says what an executor waited for that does not start", async () => {
    const one = started({ times: { claimMs: 24_000, startMs: minute } });
    one.backend.startsAtOnce = false;
    one.queue.publish(content);
    await one.clock.step(0);
    one.backend.wait(one.executor(assignment), failureFor("image_pull_slow", "pulling"));
    await one.clock.step(minute + 26_000);
    assert.equal(one.record(assignment).attempts.lost?.reason, "image_pull_slow");
  });

  it("tries the attempt that a write began whose answer got lost", async () => {
    const one = started();
    one.store.failNext("update", new Error("no answer"), { done: true });
    one.queue.publish(content);
    await one.clock.step(retryMs);
    assert.equal(one.phase(), "starting 1");
    assert.equal(one.backend.called("create").length, 1);
  });

  /** A lane after the loss of its records, with executors of these attempts in this order. */
  async function withoutRecords(...numbers: readonly number[]): Promise<LaneUnderTest> {
    const one = createLaneUnderTest();
    open.push(one);
    for (const number of numbers) {
      const metadata = anExecutorMetadata({ assignment, attempt: anAttempt({ number }) });
      const deadlineAt = one.clock.now() + 60 * minute;
      await one.backend.create({ metadata, environment: anEnvironment(assignment), deadlineAt }, never);
    }
    one.queue.publish(content);
    return one;
  }

  it("I10 goes on with a living executor whose record was lost, and creates no second one", async () => {
    const one = await withoutRecords(1);
    const names = alive(one);
    one.run("worker");
    await one.clock.step(minute);
    assert.equal(one.phase(), "adopted 1");
    assert.deepEqual(alive(one), names);
    assert.equal(one.backend.called("create").length, 1, "by the controller before");
    assert.deepEqual(one.slots.held(), [id]);
    assert.deepEqual(one.tasks.beats, [], "it counts as claimed");
    await one.claim(assignment);
    await one.clock.step(0);
    assert.equal(one.queue.size, 0);
  });

  it("I10 goes on with the newest attempt of several without a record", async () => {
    const one = await withoutRecords(1, 3, 2);
    one.run("worker");
    await one.clock.step(0);
    assert.equal(one.phase(), "adopted 3");
  });

  it("never starts anew when the executor without a record has ended: it may have claimed", async () => {
    const one = await withoutRecords(2);
    const [old = ""] = alive(one);
    one.backend.end(old);
    one.run("worker");
    await one.clock.step(5 * minute);
    assert.equal(one.phase(), "adopted 2", "the reconciler decides");
    assert.equal(one.backend.called("create").length, 1);
    assert.equal(one.queue.size, 1);
  });

  it("adopts no executor of an attempt that is known to be lost", async () => {
    const earlier = await waiting();
    const first = earlier.executor(assignment);
    const record: AssignmentRecord = {
      ...earlier.record(assignment),
      attempts: { begun: 1, burnt: 1, lost: failureFor("too_slow", "") },
      phase: { name: "queued", notBefore: 0 },
    };
    await earlier.stop();
    const one = createLaneUnderTest({ world: earlier.backend.world, clock: earlier.clock });
    open.push(one);
    one.store.overwrite(record);
    for (const stored of one.store.stored.values()) one.assignments.restore(stored);
    one.queue.publish(content);
    one.run("worker");
    await one.clock.step(10_000);
    assert.equal(one.phase(), "starting 2");
    assert.equal(alive(one).includes(first), false);
  });

  for (const phase of ["queued", "starting"] as const)
    it(`I10 goes on with an executor of a later attempt than an old record knows of: ${phase}`, async () => {
      const one = await withoutRecords(1, 2);
      const [first = "", second = ""] = alive(one);
      one.backend.end(first);
      one.store.overwrite({ ...inPhase(phase), assignment, attempts: { begun: 1, burnt: 0 } });
      for (const stored of one.store.stored.values()) one.assignments.restore(stored);
      one.run("worker");
      await one.clock.step(minute);
      assert.equal(one.phase(), "adopted 2");
      assert.deepEqual(alive(one), [second]);
    });

  it("creates the executor of an attempt that was only begun before a restart", async () => {
    const earlier = started();
    earlier.backend.hold("create");
    earlier.queue.publish(content);
    await earlier.clock.step(0);
    const name = earlier.executor(assignment);
    const one = started({ world: earlier.backend.world, store: earlier.store });
    for (const record of earlier.store.stored.values()) one.assignments.restore(record);
    one.queue.publish(content);
    await one.clock.step(0);
    assert.deepEqual(alive(one), [name]);
    assert.equal(one.phase(), "starting 1");
    assert.deepEqual([toldBefore(earlier), toldBefore(one)], [[undefined], [true]]);
  });

  describe("of a backend that keeps failing", () => {
    const publishAll = ({ queue }: LaneUnderTest, ...taskIds: readonly bigint[]) => {
      for (const each of taskIds) queue.publish(aContent({ taskId: each }));
    };
    const away = () => new BackendError("retryable", "connection refused");

    it("creates nothing after three failures, but for one probe at a time, ever more rarely", async () => {
      const one = started({ capacity: 3 });
      for (let i = 0; i < 100; i++) one.backend.failNext("create", away());
      publishAll(one, 42n, 43n, 44n, 45n, 46n);
      await one.clock.step(0);
      assert.equal(one.backend.called("create").length, 3);
      assert.equal(one.worker.circuit().name, "open");
      await one.clock.step(retryMs - 1);
      assert.equal(one.backend.called("create").length, 3);
      await one.clock.step(10 * minute);
      const creates = one.backend.called("create").length;
      assert.ok(creates >= 6 && creates <= 9, String(creates));
    });

    it("fails and burns nothing by that, holds no slot for it, and goes on when the backend is back", async () => {
      const one = started({ capacity: 1 });
      for (let i = 0; i < 6; i++) one.backend.failNext("create", away());
      one.queue.publish(content);
      // The last probe failed 80 s ago: nothing will come of it any more.
      await one.clock.step(215_000);
      assert.equal(one.worker.circuit().name, "open");
      assert.deepEqual(one.slots.held(), []);
      await one.clock.step(minute);
      assert.equal(one.worker.circuit().name, "closed");
      assert.equal(one.phase(), "starting 1");
      assert.equal(one.record(assignment).attempts.burnt, 0);
      assert.equal(alive(one).length, 1);
    });

    it("does not count what is wrong with the jobs themselves", async () => {
      const one = started({ capacity: 4 });
      const taskIds = [42n, 43n, 44n, 45n];
      for (const _ of taskIds)
        one.backend.failNext("create", new BackendError("terminal", "no tag", { reason: "image_missing" }));
      publishAll(one, ...taskIds);
      await one.clock.step(0);
      assert.equal(one.worker.circuit().name, "closed");
    });

    it("finds what is there already all the same", async () => {
      const one = await waiting();
      for (let i = 0; i < 100; i++) one.backend.failNext("create", away());
      publishAll(one, 43n, 44n, 45n);
      await one.clock.step(minute);
      assert.equal(one.worker.circuit().name, "open");
      await one.claim(assignment);
      await one.clock.step(0);
      assert.equal(one.phase(assignment), "claimed 1");
    });

    it("B-41 leaves the other backend alone", async () => {
      const clock = createFakeClock();
      const queue = createFakeQueue(clock);
      const pod = started({ clock, queue, capacity: 3 });
      const vm = started({ clock, queue, kind: "vm" });
      for (let i = 0; i < 100; i++) pod.backend.failNext("create", away());
      publishAll(pod, 42n, 43n, 44n);
      await clock.step(0);
      const other = aContent({ taskId: 50n, backend: "vm" });
      queue.publish(other);
      await clock.step(2_000);
      assert.equal(pod.worker.circuit().name, "open");
      assert.equal(vm.worker.circuit().name, "closed");
      assert.equal(vm.phase(other.assignment), "starting 1");
    });
  });
});
