import assert from "node:assert/strict";
import * as fc from "fast-check";
import { afterEach, describe, it } from "mocha";
import type { AssignmentEvent } from "../../../controller/assignment/event.ts";
import { defaultTimes as times } from "../../../controller/assignment/times.ts";
import { BackendError } from "../../../controller/backends/backend.ts";
import { abortable } from "../../../controller/platform/signal.ts";
import { settle } from "../../fakes/fake-clock.ts";
import { anAssignment, anAttempt, aRecord } from "../../support/builders.ts";
import { anEvent, aReport, inPhase } from "../../support/phases.ts";
import {
  createReconcilerUnderTest,
  never,
  type ReconcilerUnderTest,
  type ReconcilerUnderTestOptions,
} from "../../support/reconciler-under-test.ts";

const assignment = anAssignment();
const { id } = assignment;
const other = anAssignment({ taskId: 43n });

describe("the reconciler", () => {
  const open: ReconcilerUnderTest[] = [];
  afterEach(async () => {
    for (const one of open.splice(0)) await one.stop();
  });
  function created(options: ReconcilerUnderTestOptions = {}): ReconcilerUnderTest {
    const one = createReconcilerUnderTest(options);
    open.push(one);
    return one;
  }
  /** A job whose executor has claimed it. */
  async function claimed(options: ReconcilerUnderTestOptions = {}) {
    const one = created(options);
    one.enter(inPhase("claimed", { deadlineAt: one.clock.now() + 3_600_000 }));
    const name = await one.create(assignment);
    one.slots.restore(id);
    return { ...one, name };
  }
  /** As Gitea's answer to what we told it. */
  const accepted: AssignmentEvent = { type: "accepted", result: "failure" };
  const accept = (one: ReconcilerUnderTest) => one.apply(id, accepted);
  const reported: AssignmentEvent = { type: "result_reported", attempt: anAttempt(), report: aReport };
  const failures = ({ changes }: ReconcilerUnderTest) =>
    changes.flatMap(({ event, after: { phase } }) =>
      event === "failed" && phase.name === "ending" && phase.end.by === "controller"
        ? [phase.end.failure?.reason]
        : [],
    );
  const backendCalls = ({ backend }: ReconcilerUnderTest) =>
    backend.calls.map(({ method }) => method).filter((method) => method !== "list" && method !== "create");
  async function passes(one: ReconcilerUnderTest, count: number): Promise<void> {
    for (let i = 0; i < count; i++) await one.pass();
  }
  /** Passes as they come by themselves: every five seconds. */
  async function during(one: ReconcilerUnderTest, ms: number): Promise<void> {
    for (let gone = 0; gone < ms; gone += times.reconcileMs) {
      await one.clock.step(times.reconcileMs);
      await one.pass();
    }
  }
  function assertNothingLeft(one: ReconcilerUnderTest): void {
    assert.deepEqual([...one.backend.world.stored.keys()], []);
    assert.deepEqual(one.slots.held(), []);
    assert.deepEqual(one.assignments.all(), []);
    assert.equal(one.store.stored.size, 0);
  }

  it("leaves a job that runs alone: no call but one look, and no write", async () => {
    const one = await claimed();
    const { length } = one.store.writes;
    for (let i = 0; i < 3; i++) {
      one.hearing.heard(id);
      await one.pass();
    }
    assert.deepEqual(backendCalls(one), []);
    assert.equal(one.backend.called("list").length, 3);
    assert.equal(one.store.writes.length, length);
    assert.equal(one.reconciler.passedAt(), one.clock.now());
  });

  it("decides that a job failed whose executor has ended, once, and clears away when Gitea knows", async () => {
    const one = await claimed();
    one.backend.end(one.name, "exited with code 1");
    await passes(one, 5);
    assert.deepEqual(failures(one), ["no_result"]);
    const { phase } = one.assignments.get(id)?.record ?? {};
    assert.ok(phase?.name === "ending" && phase.end.by === "controller" && phase.end.executorGone);
    assert.deepEqual(one.slots.held(), [], "its slot is free, though Gitea may be away");
    assert.deepEqual([...one.backend.world.stored.keys()], [one.name], "until Gitea knows");
    await accept(one);
    await passes(one, 2);
    assertNothingLeft(one);
    assert.deepEqual(one.removed, [`message ${id} 1`, `message ${id} 1`, `reports ${id}`, `record ${id}`]);
  });

  it("decides so of one that is gone when all lists have lacked it for long, and nobody has heard of it", async () => {
    const one = await claimed();
    one.backend.vanish(one.name);
    await one.pass();
    await during(one, times.absentMs - times.reconcileMs);
    one.hearing.heard(id);
    await during(one, times.absentMs - times.reconcileMs);
    assert.equal(one.phase(id), "claimed");
    await during(one, times.reconcileMs);
    assert.deepEqual(failures(one), ["vanished"]);
    await accept(one);
    await passes(one, 3);
    assertNothingLeft(one);
  });

  it("believes no single list, and no backend that is away: an executor that is there again was never gone", async () => {
    const one = await claimed();
    const { list } = one;
    one.backend.list = () => Promise.resolve({ executors: [], invalid: [] });
    await one.pass();
    await during(one, times.absentMs - times.reconcileMs);
    one.backend.list = (signal) => list(signal);
    await one.pass();
    one.backend.list = () => Promise.resolve({ executors: [], invalid: [] });
    await during(one, times.absentMs);
    assert.deepEqual(failures(one), []);
    one.backend.list = () => Promise.reject(new BackendError("retryable", "away"));
    await one.clock.step(60_000);
    await assert.rejects(one.pass(), /away/);
    assert.deepEqual(failures(one), []);
  });

  it("decides that a silent executor failed, also while its backend is away, and kills it when that is back", async () => {
    const one = await claimed();
    const { list } = one;
    one.backend.list = () => Promise.reject(new BackendError("retryable", "away"));
    for (let gone = 0; gone < times.silenceMs; gone += times.reconcileMs) {
      await one.clock.step(times.reconcileMs);
      await assert.rejects(one.pass(), /away/);
    }
    assert.deepEqual(failures(one), ["silent"]);
    for (let gone = 0; gone < times.terminalGraceMs; gone += times.reconcileMs) {
      await one.clock.step(times.reconcileMs);
      await assert.rejects(one.pass(), /away/);
    }
    const { phase } = one.assignments.get(id)?.record ?? {};
    assert.ok(phase?.name === "ending" && phase.end.by === "controller" && phase.end.executorGone);
    assert.equal(one.reconciler.passedAt(), one.clock.now());
    assert.equal(one.reconciler.listedAt(), undefined);
    one.backend.list = (signal) => list(signal);
    await one.pass();
    assert.deepEqual(one.backend.called("kill"), [one.name]);
  });

  it("leaves a claimed job alone whose executor cannot be read, until it can be or is gone", async () => {
    const one = await claimed();
    one.backend.spoil(one.name);
    for (let i = 0; i < 12; i++) {
      one.hearing.heard(id);
      await during(one, times.reconcileMs);
    }
    assert.equal(one.phase(id), "claimed");
    one.backend.vanish(one.name);
    await one.pass();
    await during(one, times.absentMs + times.reconcileMs);
    assert.deepEqual(failures(one), ["vanished"]);
  });

  it("B-52 marks an executor whose task is over, leaves it a minute to end, then kills and deletes it", async () => {
    const one = await claimed();
    await one.apply(id, reported);
    await one.apply(id, accepted);
    await one.pass();
    assert.deepEqual(one.backend.called("markTerminal"), [one.name]);
    await during(one, times.terminalGraceMs - times.reconcileMs);
    assert.deepEqual(one.backend.called("kill"), []);
    assert.deepEqual(one.slots.held(), [id]);
    assert.deepEqual(one.backend.called("markTerminal"), [one.name], "once");
    await during(one, times.reconcileMs);
    assert.deepEqual(one.backend.called("kill"), [one.name]);
    await passes(one, 2);
    assertNothingLeft(one);
    assert.deepEqual(failures(one), []);
  });

  it("gives a job that Gitea ended the time that its last steps may take", async () => {
    const one = await claimed();
    await one.apply(id, { type: "ended_by_gitea", result: "cancelled" });
    await one.pass();
    await during(one, times.cancelGraceMs - times.reconcileMs);
    assert.deepEqual(one.backend.called("kill"), []);
    await during(one, times.reconcileMs);
    assert.deepEqual(one.backend.called("kill"), [one.name]);
  });

  it("leaves an executor whose result is stored to wind up while Gitea is away, but not for ever", async () => {
    const one = await claimed();
    await one.apply(id, reported);
    await one.pass();
    await during(one, times.resultGraceMs - times.reconcileMs);
    assert.deepEqual(backendCalls(one), []);
    await during(one, times.reconcileMs);
    assert.deepEqual(one.backend.called("kill"), [one.name]);
    await one.pass();
    assert.deepEqual(one.slots.held(), []);
    assert.deepEqual(one.backend.called("delete"), []);
  });

  it("B-72 gives the slot back only when the executor has ended, then deletes it, then forgets", async () => {
    const one = await claimed();
    const order: string[] = [];
    one.slots.onChange(() => order.push(`slots ${one.slots.held().length}`));
    await one.apply(id, reported);
    await one.apply(id, accepted);
    await one.pass();
    assert.equal(order.length, 0);
    one.backend.end(one.name);
    order.push(`there ${one.backend.world.stored.size}`);
    const hold = one.backend.hold("delete");
    const passing = one.pass();
    await settle();
    assert.deepEqual(order, ["there 1", "slots 0"]);
    assert.equal(one.backend.world.stored.size, 1);
    assert.deepEqual(one.removed, [`message ${id} 1`], "its message first");
    hold();
    await passing;
    await one.pass();
    assertNothingLeft(one);
  });

  it("deletes nothing of the current attempt as long as its message cannot be removed or it cannot be marked", async () => {
    const one = await claimed();
    await one.apply(id, reported);
    await one.apply(id, accepted);
    one.backend.end(one.name);
    one.backend.failNext("markTerminal", new BackendError("retryable", "not now"));
    await one.pass();
    one.failRemoval("message", new Error("no answer"));
    await one.pass();
    assert.deepEqual(one.backend.called("delete"), []);
    assert.deepEqual(one.slots.held(), []);
    await passes(one, 2);
    assertNothingLeft(one);
  });

  it("does all of it by itself as soon as something changes, and looks now and then", async () => {
    const one = await claimed();
    one.run();
    await one.clock.step(0);
    const before = one.backend.called("list").length;
    await one.clock.step(times.reconcileMs);
    assert.equal(one.backend.called("list").length, before + 1);
    one.backend.end(one.name);
    await one.clock.step(0);
    assert.equal(one.phase(id), "ending");
    await accept(one);
    await one.clock.step(0);
    assertNothingLeft(one);
  });

  it("does not look again for what a job reports of its steps", async () => {
    const one = await claimed();
    one.run();
    await one.clock.step(0);
    const before = one.backend.called("list").length;
    for (let i = 0; i < 9; i++) await one.apply(id, anEvent.steps_reported);
    assert.equal(one.backend.called("list").length, before);
    await one.clock.step(times.reconcileMs);
    assert.equal(one.backend.called("list").length, before + 1);
  });

  it("does no harm with a list that is older than the phase of a record", async () => {
    const one = created();
    one.enter(inPhase("starting"));
    const answered = Promise.withResolvers<void>();
    const { list } = one;
    one.backend.list = async (signal) => {
      one.backend.list = (later) => list(later);
      const before = await list(signal);
      await answered.promise;
      return before;
    };
    const passing = one.pass();
    await settle();
    one.slots.acquire(id);
    await one.create(assignment);
    await one.apply(id, anEvent.claimed);
    await one.apply(id, reported);
    await one.apply(id, accepted);
    answered.resolve();
    await passing;
    assert.equal(one.phase(id), "finished", "it is not forgotten by a list that could not have its executor");
    assert.deepEqual(backendCalls(one), []);
    assert.deepEqual(one.slots.held(), [id]);
  });

  it("decides as the assignment's actor: what was recorded just before is no failure", async () => {
    const one = await claimed();
    const { promise, resolve } = Promise.withResolvers<void>();
    const relaying = one.assignments.within(id, () => promise);
    const recorded = one.apply(id, reported);
    one.backend.end(one.name);
    const passing = one.pass();
    await settle();
    resolve();
    await Promise.all([relaying, recorded, passing]);
    assert.deepEqual(failures(one), []);
    assert.equal(one.phase(id), "ending");
  });

  it("keeps nobody waiting for the actor while a backend is slow", async () => {
    const one = await claimed();
    const lost = await one.create(assignment, anAttempt({ number: 7 }));
    const hold = one.backend.hold("delete");
    const passing = one.pass();
    await settle();
    await one.apply(id, anEvent.steps_reported);
    assert.equal(one.assignments.get(id)?.record.steps.length, 1);
    hold();
    await passing;
    assert.deepEqual(one.backend.called("delete"), [lost]);
    assert.deepEqual([...one.backend.world.stored.keys()], [one.name]);
    assert.equal(one.phase(id), "claimed");
  });

  it("takes a slot for what does not validate, reports it once, stops nothing, and frees the slot with it", async () => {
    const one = await claimed();
    one.enter({ ...inPhase("claimed"), assignment: other });
    const second = await one.create(other);
    one.backend.spoil(one.name);
    one.backend.end(second);
    await passes(one, 3);
    assert.deepEqual(failures(one), ["no_result"]);
    const told = one.errors().filter((line) => line.startsWith("executor with invalid metadata"));
    assert.equal(told.length, 1);
    assert.match(told[0] ?? "", /nonce is missing/);
    assert.ok(one.slots.has(`invalid/${one.name}`));
    assert.ok(one.backend.world.stored.has(one.name));
    one.backend.vanish(one.name);
    await passes(one, 2);
    assert.equal(one.slots.has(`invalid/${one.name}`), false);
  });

  it("deletes what does not validate when its task has been over for a minute, and frees both slots", async () => {
    const one = await claimed();
    one.backend.spoil(one.name);
    await one.apply(id, reported);
    await one.apply(id, accepted);
    await one.pass();
    assert.deepEqual(one.backend.called("delete"), []);
    assert.deepEqual(one.slots.held().toSorted(), [id, `invalid/${one.name}`].toSorted());
    await during(one, times.terminalGraceMs);
    assert.deepEqual(one.backend.called("delete"), [one.name]);
    await passes(one, 2);
    assertNothingLeft(one);
    assert.deepEqual(failures(one), []);
  });

  it("I4 deletes what does not validate when it is older than any executor may be", async () => {
    const one = created({ maxLifeMs: 3_600_000 });
    const name = await one.create(assignment);
    one.backend.spoil(name);
    await one.clock.step(3_600_000 + times.deadlineMarginMs - 1);
    await one.pass();
    assert.deepEqual(one.backend.called("delete"), []);
    await one.clock.step(1);
    one.backend.failNext("delete", new BackendError("retryable", "not now"));
    await passes(one, 3);
    assertNothingLeft(one);
  });

  it("B-41 leaves the assignments of another backend to that one's lane", async () => {
    const one = created();
    one.enter({ ...inPhase("finished"), assignment: anAssignment({ backend: "vm" }) });
    await one.pass();
    assert.equal(one.assignments.all().length, 1);
  });

  it("leaves the current attempt before the claim, and its slot, to the worker", async () => {
    const one = created();
    one.enter(inPhase("starting"));
    const name = await one.create(assignment);
    one.slots.acquire(id);
    one.backend.end(name);
    await passes(one, 2);
    assert.deepEqual(backendCalls(one), []);
    assert.deepEqual(one.slots.held(), [id]);
    assert.equal(one.phase(id), "starting");
  });

  it("ends what was started for a task that ended before the claim, and waits for what may come late", async () => {
    const one = created();
    one.enter(inPhase("starting"));
    one.slots.acquire(id);
    await one.apply(id, anEvent.cancel_told);
    await one.pass();
    assert.deepEqual(one.slots.held(), [id], "its create may be under way");
    await accept(one);
    await during(one, times.terminalGraceMs / 2);
    const name = await one.create(assignment);
    await passes(one, 2);
    assert.deepEqual(one.backend.called("kill"), [name]);
    await during(one, times.terminalGraceMs);
    assertNothingLeft(one);
  });

  it("does not let one assignment hold up the others, nor the next pass", async () => {
    const one = await claimed();
    one.enter({ ...inPhase("claimed"), assignment: other });
    const second = await one.create(other);
    const { promise, resolve } = Promise.withResolvers<void>();
    const stuck = one.assignments.within(id, () => promise);
    one.backend.end(one.name);
    one.backend.end(second);
    const passing = one.pass();
    await one.clock.step(times.reconcileMs);
    await passing;
    assert.equal(one.phase(other.id), "ending");
    assert.equal(one.phase(id), "claimed");
    await one.pass();
    await one.clock.step(times.callMs);
    assert.equal(one.errors().length, 1);
    resolve();
    await stuck;
    await one.pass();
    assert.equal(one.phase(id), "ending");
  });

  it("reports a backend that cannot be listed, tries again, and gives up on one that never answers", async () => {
    const one = await claimed();
    one.backend.failNext("list", new BackendError("retryable", "the API server is away"));
    await assert.rejects(one.pass(), /away/);
    assert.deepEqual(one.slots.held(), [id]);
    const hold = one.backend.hold("list");
    const passing = assert.rejects(one.pass(), /no answer within 30 s/);
    await one.clock.step(times.callMs);
    await passing;
    hold();
    await one.pass();
    assert.deepEqual(one.slots.held(), [id]);
  });

  it("goes on by itself after an error, and does not fill the log with it", async () => {
    const one = await claimed();
    for (let i = 0; i < 4; i++)
      one.backend.failNext("list", new BackendError("retryable", `away (request 3f9c1e0${i}, ${i} ms)`));
    one.backend.end(one.name);
    one.run();
    await one.clock.step(0);
    assert.deepEqual(one.errors(), ["backend lifecycle error: away (request 3f9c1e00, 0 ms)"]);
    await one.clock.step(4 * times.againMs);
    assert.equal(one.phase(id), "ending");
    assert.equal(one.errors().length, 1);
  });

  it("I3 frees the slot of an executor that should be gone for long, says so once, and goes on trying", async () => {
    const one = await claimed();
    await one.apply(id, { type: "ended_by_gitea", result: "cancelled" });
    one.backend.kill = () => Promise.reject(new BackendError("retryable", "its node is lost"));
    one.backend.delete = () => Promise.reject(new BackendError("retryable", "its node is lost"));
    await during(one, times.cancelGraceMs + times.lingerMs - times.reconcileMs);
    assert.deepEqual([...one.reconciler.lingering()], []);
    assert.deepEqual(one.slots.held(), [id]);
    await during(one, 3 * times.reconcileMs);
    assert.deepEqual([...one.reconciler.lingering()], [one.name]);
    assert.deepEqual(one.slots.held(), []);
    assert.equal(one.errors().filter((line) => line.startsWith("executor lingers")).length, 1);
    const deed = { event: "executor_lingers", assignment: id, executor: one.name } as const;
    assert.deepEqual(
      one.deeds.filter(({ event }) => event === "executor_lingers"),
      [deed],
    );
    assert.equal(one.phase(id), "finished", "its record stays as long as it does");
    one.backend.vanish(one.name);
    await passes(one, 2);
    assert.deepEqual([...one.reconciler.lingering()], []);
    assertNothingLeft(one);
  });

  it("deletes one that does not end however often it is killed, as soon as it lingers", async () => {
    const one = await claimed();
    await one.apply(id, { type: "ended_by_gitea", result: "cancelled" });
    one.backend.kill = (_name, _reason, signal) => abortable(new Promise<never>(() => undefined), signal);
    one.run();
    await one.clock.step(times.cancelGraceMs + times.lingerMs - times.reconcileMs);
    assert.deepEqual(one.backend.called("delete"), []);
    await one.clock.step(3 * times.callMs);
    assert.deepEqual(one.backend.called("delete"), [one.name]);
    assertNothingLeft(one);
  });

  describe("without a record", () => {
    async function lost() {
      const one = created();
      return { ...one, name: await one.create(assignment) };
    }

    it("I10 adopts a running executor, holds its slot, and leaves it alone as long as it is heard", async () => {
      const one = await lost();
      for (let i = 0; i < 90; i++) {
        one.hearing.heard(id);
        await during(one, times.reconcileMs);
      }
      assert.equal(one.phase(id), "adopted");
      assert.deepEqual(one.slots.held(), [id]);
      assert.deepEqual(backendCalls(one), []);
      await during(one, times.silenceMs);
      assert.deepEqual(failures(one), ["record_lost"]);
    });

    it("tells Gitea once of one that has ended without a result", async () => {
      const one = await lost();
      one.backend.end(one.name);
      await passes(one, 4);
      assert.deepEqual(failures(one), ["record_lost"]);
      await accept(one);
      await passes(one, 3);
      assert.deepEqual([...one.backend.world.stored.keys()], []);
      await during(one, times.terminalGraceMs);
      assertNothingLeft(one);
    });

    it("deletes one whose result Gitea has, and tells nobody", async () => {
      const one = await lost();
      await one.backend.markTerminal(one.name, never);
      await passes(one, 2);
      assert.deepEqual(one.changes, []);
      assertNothingLeft(one);
    });

    it("never takes an old list for an executor that got lost", async () => {
      const one = await claimed();
      await one.apply(id, reported);
      await one.apply(id, accepted);
      one.backend.end(one.name);
      const old = await one.backend.list(never);
      await passes(one, 2);
      assertNothingLeft(one);
      const { list } = one;
      one.backend.list = () => Promise.resolve(old);
      await passes(one, 2);
      one.backend.list = (signal) => list(signal);
      await passes(one, 2);
      assert.equal(
        one.changes.some(({ event }) => event === "orphan_found"),
        false,
      );
      assertNothingLeft(one);
    });

    it("adopts it as well when its message was taken for a new task", async () => {
      const one = await lost();
      one.enter(aRecord());
      await one.pass();
      assert.equal(one.phase(id), "adopted");
      assert.deepEqual(backendCalls(one), []);
    });
  });

  it("gives back the slot of an assignment that nobody knows", async () => {
    const one = created();
    one.slots.restore("gitea-task-99");
    await one.pass();
    assert.deepEqual(one.slots.held(), []);
  });

  it("converges from every state and through every single failure, with one end for each task", async () => {
    const faults = fc.array(
      fc.constantFrom(
        ["backend", "list"],
        ["backend", "kill"],
        ["backend", "delete"],
        ["backend", "markTerminal"],
        ["store", "create"],
        ["store", "update"],
        ["store", "remove"],
        ["removal", "message"],
        ["removal", "reports"],
      ),
      { maxLength: 5 },
    );
    const job = fc.record({
      phase: fc.constantFrom(
        "lost" as const,
        "adopted" as const,
        "claimed" as const,
        "ending" as const,
        "finished" as const,
      ),
      executor: fc.constantFrom("runs", "ended", "gone"),
    });
    const worlds = fc.record({
      jobs: fc.array(job, { minLength: 1, maxLength: 3 }),
      faults,
      done: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(worlds, async ({ jobs, faults: failing, done }) => {
        const one = createReconcilerUnderTest();
        const all = jobs.map((_, index) => anAssignment({ taskId: BigInt(index + 1) }));
        for (const [index, { phase, executor }] of jobs.entries()) {
          const mine = all[index];
          assert.ok(mine);
          if (phase !== "lost") one.enter({ ...inPhase(phase), assignment: mine });
          const name = await one.create(mine);
          if (executor === "ended") one.backend.end(name);
          if (executor === "gone") one.backend.vanish(name);
        }
        const error = new BackendError("retryable", "as the test wants it");
        for (const [where, method] of failing) {
          if (where === "backend") one.backend.failNext(method, error, { done });
          if (where === "store") one.store.failNext(method, error, { done });
          if (where === "removal") one.failRemoval(method, error);
        }
        one.run();
        for (let gone = 0; gone < 240_000; gone += times.reconcileMs) {
          await one.clock.step(times.reconcileMs);
          for (const [index, { executor }] of jobs.entries()) {
            const mine = all[index];
            assert.ok(mine);
            if (executor === "runs") one.hearing.heard(mine.id);
            const { phase } = one.assignments.get(mine.id)?.record ?? {};
            // As Gitea does when it is told.
            if (phase?.name === "ending" && (phase.end.by === "executor" || phase.end.executorGone))
              await one.apply(mine.id, accepted).catch(() => undefined);
          }
        }
        for (const [index, { phase, executor }] of jobs.entries()) {
          const mine = all[index];
          assert.ok(mine);
          const runs = executor === "runs" && phase !== "ending" && phase !== "finished";
          assert.equal(one.assignments.get(mine.id) !== undefined, runs, JSON.stringify(jobs));
          assert.equal(one.slots.has(mine.id), runs);
          const ends = one.changes.filter(
            ({ event, after }) => event === "failed" && after.assignment.id === mine.id,
          );
          const dies = executor === "ended" || (executor === "gone" && phase !== "lost");
          const decided = dies && phase !== "ending" && phase !== "finished" ? 1 : 0;
          // Of a write whose answer got lost nobody is told.
          assert.ok(ends.length === decided || (done && ends.length < decided), JSON.stringify(jobs));
        }
        assert.equal(one.backend.world.stored.size, one.slots.held().length, "one executor for each slot");
        assert.equal(one.store.stored.size, one.assignments.all().length);
        await one.stop();
      }),
      { numRuns: 40 },
    );
  });
});
