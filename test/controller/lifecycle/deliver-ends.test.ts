import assert from "node:assert/strict";
import { beforeEach, describe, it } from "mocha";
import { executorName } from "../../../controller/assignment/executor-metadata.ts";
import { failureFor, failureRows } from "../../../controller/assignment/failure.ts";
import { type AssignmentRecord, type End, type TaskResult } from "../../../controller/assignment/record.ts";
import { type Assignments, createAssignments } from "../../../controller/lifecycle/assignments.ts";
import { createEnds, type Ends, type EndsOptions } from "../../../controller/lifecycle/deliver-ends.ts";
import { createKeyedQueue, type KeyedQueue } from "../../../controller/platform/keyed-queue.ts";
import { createFakeClock, type FakeClock, settle } from "../../fakes/fake-clock.ts";
import { createFakeRecordStore, type FakeRecordStore } from "../../fakes/fake-record-store.ts";
import { createFakeReportStore, type FakeReportStore } from "../../fakes/fake-report-store.ts";
import { createRecordingLogger, type RecordingLogger } from "../../fakes/recording-logger.ts";
import { anAssignment, anAttempt, aRecord, testStart } from "../../support/builders.ts";

const never = new AbortController().signal;
const assignment = anAssignment();
const { id, taskId } = assignment;
const attempt = anAttempt();
const claim = { instance: "an-instance", logRows: 0, at: testStart };
const failure = failureFor("oom", "exit code 137");
const noAnswer = new Error("no answer");

/** Gitea as it is told of ends; it answers with the result that it is told, unless a test sets another. */
function createTold() {
  const calls: unknown[] = [];
  const failures: { readonly error: Error; readonly done: boolean }[] = [];
  const holds = new Map<bigint, Promise<void>>();
  const told = {
    calls,
    says: undefined as TaskResult | "gone" | undefined,
    away: false,
    failNext: (error: Error, done = false) => void failures.push({ error, done }),
    hold: (task: bigint) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      holds.set(task, promise);
      return resolve;
    },
    take: async (task: bigint, call: unknown, result: TaskResult, signal: AbortSignal) => {
      await Promise.resolve();
      await holds.get(task);
      signal.throwIfAborted();
      const failed = failures.shift();
      if (told.away || failed?.done === false) throw failed?.error ?? noAnswer;
      calls.push(call);
      if (failed !== undefined) throw failed.error;
      return told.says ?? result;
    },
  };
  return told;
}

describe("delivering the ends that are decided", () => {
  let store: FakeRecordStore;
  let assignments: Assignments;
  let reports: FakeReportStore;
  let told: ReturnType<typeof createTold>;
  let clock: FakeClock;
  let log: RecordingLogger;
  let logLanes: KeyedQueue;
  let marks: string[];
  let markFailures: Error[];
  let ends: Ends;
  let stop: AbortController;

  const options = (): EndsOptions => ({
    assignments,
    reports,
    sendReport: ({ taskId: task, bytes, storedAt }, signal) => {
      const result = Buffer.from(bytes).toString() as TaskResult;
      return told.take(task, { report: result, storedAt }, result, signal);
    },
    reportEnd: ({ taskId: task, result, reason, steps }, signal) =>
      told.take(task, { verdict: result, reason, steps }, result, signal),
    commandFor: (backend, executor, reason) =>
      reason === "vanished" ? `look ${backend} ${executor}` : undefined,
    markTerminal: async ({ phase, assignment: marked }) => {
      await Promise.resolve();
      const failed = markFailures.shift();
      if (failed !== undefined) throw failed;
      marks.push(`${marked.id} ${phase.name}`);
    },
    logLanes,
    times: { callMs: 30_000 },
    clock,
    random: () => 0,
    log,
  });
  beforeEach(() => {
    store = createFakeRecordStore();
    clock = createFakeClock();
    log = createRecordingLogger();
    assignments = createAssignments({ store, clock });
    reports = createFakeReportStore();
    told = createTold();
    logLanes = createKeyedQueue();
    [marks, markFailures] = [[], []];
    ends = createEnds(options());
    stop = new AbortController();
  });

  const ending = async (end: End, of = assignment): Promise<void> => {
    const phase = { name: "ending", attempt, claim, end, since: testStart } as const;
    const record: AssignmentRecord = aRecord({ assignment: of, phase, attempts: { begun: 1, burnt: 0 } });
    store.overwrite(record);
    const stored = store.stored.get(of.id);
    assert.ok(stored !== undefined);
    assignments.restore(stored);
  };
  const byExecutor = async (result: TaskResult = "success", of = assignment) => {
    const report = await reports.put(of.id, result, Buffer.from(result), never);
    await ending({ by: "executor", report }, of);
  };
  const byUs = (executorGone: boolean, of = assignment) =>
    ending({ by: "controller", result: "failure", failure, executorGone }, of);
  const deliver = () => assignments.within(id, () => ends.deliver(id, never));
  const phaseOf = (of = assignment) => {
    const phase = assignments.get(of.id)?.record.phase;
    assert.ok(phase !== undefined);
    return phase.name === "finished" ? `${phase.result} by ${phase.by}` : phase.name;
  };
  /** The loop, until the test ends it. */
  const running = (work: () => Promise<void>) => async () => {
    const run = ends.run(stop.signal);
    try {
      await work();
    } finally {
      stop.abort(new Error("the test is over"));
      await run;
    }
  };

  describe("one try", () => {
    it("tells an executor's stored report, records what Gitea shows, then marks the executor", async () => {
      await byExecutor("skipped");
      const { phase } = await deliver();
      assert.equal(phase.name, "finished");
      assert.deepEqual(told.calls, [{ report: "skipped", storedAt: testStart }]);
      assert.equal(phaseOf(), "skipped by executor");
      assert.deepEqual(marks, [`${id} finished`]);
    });

    it("tells our decision with the rows of the failure and the name of the executor, once that is gone", async () => {
      await byUs(false);
      assert.equal((await deliver()).phase.name, "ending");
      assert.deepEqual(told.calls, []);
      await assignments.apply(id, { type: "executor_gone" }, never);
      await deliver();
      const reason = failureRows(failure, { executor: executorName(assignment, attempt) });
      assert.deepEqual(told.calls, [{ verdict: "failure", reason, steps: [] }]);
      assert.equal(phaseOf(), "failure by controller");
    });

    it("tells a command that shows what happened, where the backend has one", async () => {
      const vanished = failureFor("vanished", "no Pod of that name");
      await ending({ by: "controller", result: "failure", failure: vanished, executorGone: true });
      await deliver();
      const executor = executorName(assignment, attempt);
      const reason = failureRows(vanished, { executor, command: `look pod ${executor}` });
      assert.equal(reason.at(-1), `To reproduce it: look pod ${executor}`);
      assert.deepEqual(told.calls, [{ verdict: "failure", reason, steps: [] }]);
    });

    it("tells a cancel before the job ran without a row", async () => {
      await ending({ by: "controller", result: "cancelled", executorGone: true });
      await deliver();
      assert.deepEqual(told.calls, [{ verdict: "cancelled", reason: [], steps: [] }]);
    });

    it("records what Gitea shows when that is another result than ours", async () => {
      await byExecutor("success");
      told.says = "cancelled";
      await deliver();
      assert.equal(phaseOf(), "cancelled by executor");
    });

    it("is over, as cancelled, when Gitea does not know the task any more", async () => {
      await byExecutor();
      told.says = "gone";
      await deliver();
      assert.equal(phaseOf(), "cancelled by gitea");
      assert.deepEqual(marks, [`${id} finished`]);
    });

    it("changes nothing while Gitea is away or does not say what it shows", async () => {
      for (const done of [false, true]) {
        await byExecutor();
        told.failNext(noAnswer, done);
        await assert.rejects(deliver(), /no answer/);
        assert.equal(phaseOf(), "ending");
        assert.deepEqual(marks, []);
        await deliver();
        assert.equal(phaseOf(), "success by executor");
        marks.length = 0;
      }
    });

    it("is told to Gitea again when Gitea's word could not be recorded", async () => {
      for (const done of [false, true]) {
        await byExecutor();
        store.failNext("update", new Error("NATS is away"), { done });
        await assert.rejects(deliver(), /NATS/);
        assert.equal(phaseOf(), "ending");
        assert.equal((await deliver()).phase.name, "finished");
      }
      assert.equal(marks.length, 2);
    });

    it("B-72 rejects when only the mark fails; the record says finished by then", async () => {
      await byExecutor();
      markFailures.push(new Error("the API server is away"));
      await assert.rejects(deliver(), /API server/);
      assert.equal(phaseOf(), "success by executor");
      assert.equal((await deliver()).phase.name, "finished");
      assert.equal(told.calls.length, 1);
    });

    it("fails a job whose stored report nobody will ever read, once its executor is gone", async () => {
      await byExecutor();
      reports.lose();
      await deliver();
      const { phase } = assignments.get(id)?.record ?? {};
      assert.ok(phase?.name === "ending" && phase.end.by === "controller");
      assert.deepEqual([phase.end.failure?.reason, phase.end.executorGone], ["record_lost", false]);
      assert.deepEqual(told.calls, []);
      await assignments.apply(id, { type: "executor_gone" }, never);
      await deliver();
      assert.equal(phaseOf(), "failure by controller");
    });

    it("loses no report that cannot be read now", async () => {
      await byExecutor();
      reports.failNext("get", new Error("its key is missing"));
      await assert.rejects(deliver(), /key is missing/);
      assert.equal(phaseOf(), "ending");
      await deliver();
      assert.equal(phaseOf(), "success by executor");
    });

    it("I11 writes rows only when nobody else writes into the log", async () => {
      await byUs(true);
      const free = Promise.withResolvers<void>();
      const relayed = logLanes.run(id, () => free.promise);
      const delivered = deliver();
      await settle();
      assert.deepEqual(told.calls, []);
      free.resolve();
      await Promise.all([relayed, delivered]);
      assert.equal(phaseOf(), "failure by controller");
    });

    it("writes no rows after its deadline, when it waited in the lane for too long", async () => {
      await byUs(true);
      const free = Promise.withResolvers<void>();
      const relayed = logLanes.run(id, () => free.promise);
      const late = new AbortController();
      const delivered = assignments.within(id, () => ends.deliver(id, late.signal));
      await settle();
      late.abort(new Error("too late"));
      await assert.rejects(delivered, /too late/);
      free.resolve();
      await relayed;
      await settle();
      assert.deepEqual(told.calls, []);
    });

    it("tells nobody of a task whose end is not decided, or that is over", async () => {
      store.overwrite(aRecord());
      assignments.restore({ record: aRecord(), revision: 1 });
      assert.equal((await deliver()).phase.name, "queued");
      await byExecutor();
      await deliver();
      await deliver();
      assert.equal(told.calls.length, 1);
      await assert.rejects(ends.deliver("gitea-task-99", never), /not known/);
    });

    it("puts the result into the log", async () => {
      await byExecutor();
      await deliver();
      const line = log.lines.find(({ message }) => message === "task over");
      assert.deepEqual(line?.fields, { assignment: id, result: "success", by: "executor" });
    });
  });

  describe("the loop", () => {
    it(
      "delivers what is there when it starts, and what comes later, once",
      running(async () => {
        await settle();
        await byExecutor();
        await settle();
        assert.equal(phaseOf(), "success by executor");
        const other = anAssignment({ taskId: 43n });
        await byUs(true, other);
        await settle();
        assert.equal(phaseOf(other), "failure by controller");
        await clock.step(600_000);
        assert.equal(told.calls.length, 2);
      }),
    );

    it(
      "waits for the end of the executor before it speaks for it",
      running(async () => {
        await byUs(false);
        await clock.step(60_000);
        assert.deepEqual(told.calls, []);
        await assignments.within(id, () => assignments.apply(id, { type: "executor_gone" }, never));
        await settle();
        assert.equal(phaseOf(), "failure by controller");
      }),
    );

    it(
      "tries again after a growing pause of at most half a minute, and says so once",
      running(async () => {
        told.away = true;
        await byExecutor();
        const pauses: number[] = [];
        for (let tries = 0; tries < 8; tries++) {
          await settle();
          const [pause = 0] = clock.pending();
          pauses.push(pause / 1000);
          await clock.step(pause);
        }
        assert.deepEqual(pauses, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert.equal(log.lines.filter(({ message }) => message.includes("not delivered yet")).length, 1);
        told.away = false;
        await clock.step(30_000);
        assert.equal(phaseOf(), "success by executor");
      }),
    );

    it(
      "tries again in time though the clock was set back",
      running(async () => {
        let back = 0;
        const shifted = { ...clock, now: () => clock.now() - back };
        const set = createEnds({ ...options(), clock: shifted });
        const run = set.run(stop.signal);
        told.away = true;
        await byExecutor();
        await clock.step(10_000);
        back = 3_600_000;
        told.away = false;
        await clock.step(30_000);
        assert.equal(phaseOf(), "success by executor");
        stop.abort(new Error("the test is over"));
        await run;
      }),
    );

    it(
      "lets no assignment wait for another one whose delivery hangs, and gives that up after its time",
      running(async () => {
        const release = told.hold(taskId);
        await byExecutor();
        const other = anAssignment({ taskId: 43n });
        await byUs(true, other);
        await settle();
        assert.deepEqual([phaseOf(), phaseOf(other)], ["ending", "failure by controller"]);
        await clock.step(30_000);
        assert.match(log.text(), /no answer within 30 s/);
        release();
        await clock.step(30_000);
        assert.equal(phaseOf(), "success by executor");
      }),
    );

    it(
      "does not tell Gitea beside a try of somebody else's",
      running(async () => {
        const release = told.hold(taskId);
        await byExecutor();
        const mine = deliver();
        await settle();
        release();
        await mine;
        await settle();
        assert.equal(told.calls.length, 1);
        assert.deepEqual(marks, [`${id} finished`]);
      }),
    );

    it(
      "leaves a mark that failed to whoever looks after executors",
      running(async () => {
        markFailures.push(new Error("the API server is away"));
        await byExecutor();
        await clock.step(120_000);
        assert.equal(phaseOf(), "success by executor");
        assert.deepEqual(marks, []);
        assert.equal(told.calls.length, 1);
      }),
    );

    it(
      "goes on with the decision that stands in for a lost report",
      running(async () => {
        const report = { result: "success", key: "lost", parts: 1, bytes: 7 } as const;
        await ending({ by: "executor", report });
        await settle();
        assert.equal(phaseOf(), "ending");
        await assignments.within(id, () => assignments.apply(id, { type: "executor_gone" }, never));
        await settle();
        assert.equal(phaseOf(), "failure by controller");
      }),
    );

    it("ends with its signal, what it has under way too", async () => {
      told.hold(taskId);
      await byExecutor();
      const run = ends.run(stop.signal);
      await settle();
      stop.abort(new Error("enough"));
      await run;
      assert.equal(phaseOf(), "ending");
    });
  });

  describe("after a controller that was ended", () => {
    for (const what of ["before Gitea was told", "after Gitea was told"])
      it(`goes on where that one stopped, ${what}`, async () => {
        await byExecutor("failure");
        if (what.startsWith("after")) {
          store.failNext("update", new Error("it was ended"));
          await assert.rejects(deliver());
        }
        const next = createAssignments({ store, clock });
        for (const stored of (await store.list()).records) next.restore(stored);
        assignments = next;
        ends = createEnds(options());
        const run = ends.run(stop.signal);
        await settle();
        assert.equal(phaseOf(), "failure by executor");
        stop.abort(new Error("the test is over"));
        await run;
      });
  });
});
