import assert from "node:assert/strict";
import { create, toBinary } from "@bufbuild/protobuf";
import { WireType } from "@bufbuild/protobuf/wire";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { type CallOptions, Code, ConnectError } from "@connectrpc/connect";
import { beforeEach, describe, it } from "mocha";
import { callHeaders } from "../../../controller/assignment/executor-call.ts";
import { failureFor } from "../../../controller/assignment/failure.ts";
import { GiteaError } from "../../../controller/protocol/errors.ts";
import {
  Result,
  TaskSchema,
  UpdateTaskRequestSchema,
  UpdateLogRequestSchema,
} from "../../../proto/gen/runner/v1/runner_pb.ts";
import { settle } from "../../fakes/fake-clock.ts";
import { aTask } from "../../support/a-task.ts";
import { anAssignment, anAttempt } from "../../support/builders.ts";
import {
  begun,
  createFacadeUnderTest,
  type FacadeUnderTest,
  instance,
  lost,
} from "../../support/facade-under-test.ts";

const assignment = anAssignment();
const taskId = assignment.taskId;
/** Long enough for everything here; begins when it is asked for. */
const soon = () => AbortSignal.timeout(50_000);
const unknownField = { no: 1999, wireType: WireType.LengthDelimited, data: Uint8Array.of(3, 1, 2, 3) };

/** Rejects with this code. */
async function refused(call: Promise<unknown>, code: Code, message = /./): Promise<void> {
  await assert.rejects(call, (error: unknown) => {
    assert.ok(error instanceof ConnectError, String(error));
    assert.equal(Code[error.code], Code[code], error.message);
    assert.match(error.message, message);
    return true;
  });
}

/** Calls and answers the header with the number of log rows. */
async function withLogRows<T>(
  call: (options: CallOptions) => Promise<T>,
): Promise<{ readonly answer: T; readonly logRows: string | null }> {
  let logRows: string | null = null;
  const answer = await call({ onHeader: (headers) => (logRows = headers.get(callHeaders.logRows)) });
  return { answer, logRows };
}

describe("the facade's service", () => {
  let facade: FacadeUnderTest;
  let client: ReturnType<FacadeUnderTest["client"]>;
  beforeEach(async () => {
    facade = createFacadeUnderTest();
    client = facade.client();
    await facade.started();
  });
  const beat = (from = client, options: CallOptions = {}) =>
    from.updateTask({ state: { id: taskId } }, options);
  const terminal = (result: Result = Result.SUCCESS, from = client) =>
    from.updateTask({ state: { id: taskId, result }, outputs: { digest: "abc" } });
  const claimedPhase = () => facade.record().phase.name;

  describe("what is never forwarded", () => {
    it("refuses to register, whoever asks", async () => {
      await refused(client.register({ name: "x", token: "y" }), Code.PermissionDenied);
      await refused(facade.client({ peer: "" }).register({}), Code.PermissionDenied);
    });

    it("answers Declare and FetchTask itself", async () => {
      const { runner } = await client.declare({
        labels: ["self-hosted", "pod"],
        version: "v9",
        capabilities: [],
      });
      assert.equal(runner?.name, assignment.id);
      assert.deepEqual(runner.labels, ["self-hosted", "pod"]);
      assert.equal(runner.version, "v9");
      assert.deepEqual([runner.token, runner.uuid], ["", ""]);
      assert.equal((await client.fetchTask({})).task?.id, taskId);
      assert.deepEqual(facade.gitea.calls, []);
    });

    it("refuses Declare to callers that it does not admit", async () => {
      await refused(facade.client({ peer: "spiffe://example.org/x" }).declare({}), Code.PermissionDenied);
      const nonce = "f".repeat(32);
      await refused(facade.client({ attempt: anAttempt({ nonce }) }).declare({}), Code.Unauthenticated);
    });
  });

  describe("FetchTask", () => {
    it("gives the same task to every call of the current attempt, fields that we do not know included", async () => {
      const other = anAssignment({ taskId: 50n });
      const task = create(TaskSchema, aTask({ id: 50n }));
      task.$unknown = [unknownField];
      await facade.started(other, task);
      const caller = facade.client({ assignment: other });
      for (let i = 0; i < 2; i++) {
        const { task: got, tasksVersion } = await caller.fetchTask({ tasksVersion: 7n });
        assert.deepEqual(got && toBinary(TaskSchema, got), toBinary(TaskSchema, task));
        assert.ok(tasksVersion >= 1n);
      }
    });

    it("is unavailable while the task is not in hand yet", async () => {
      const fresh = createFacadeUnderTest();
      fresh.assignments.restore({ record: facade.record(), revision: 1 });
      await refused(fresh.client().fetchTask({}), Code.Unavailable, /not in hand/);
    });

    it("is refused for good after the claim and after the end", async () => {
      await beat();
      await refused(client.fetchTask({}), Code.Unauthenticated);
      await terminal();
      await refused(client.fetchTask({}), Code.Unauthenticated);
    });

    it("is refused for good to an attempt whose place another one took", async () => {
      await facade.apply(lost(anAttempt()));
      await refused(client.fetchTask({}), Code.Unauthenticated, /given up/);
      await facade.apply(begun(anAttempt({ number: 2 }).nonce));
      await refused(client.fetchTask({}), Code.Unauthenticated);
      const next = facade.client({ attempt: anAttempt({ number: 2 }) });
      assert.equal((await next.fetchTask({})).task?.id, taskId);
    });
  });

  describe("the claim", () => {
    it("is recorded before it is answered", async () => {
      facade.store.failNext("update", new Error("no answer"));
      await refused(beat(), Code.Unavailable, /no answer/);
      assert.equal(claimedPhase(), "starting");
      assert.deepEqual(facade.gitea.calls, []);
      const release = facade.gitea.hold("updateTask");
      const answer = beat();
      while (facade.gitea.calls.length === 0) await settle();
      assert.equal(facade.store.stored.get(assignment.id)?.record.phase.name, "claimed");
      release();
      await answer;
      assert.deepEqual(facade.claim(), { instance, logRows: 0, at: facade.clock.now() });
    });

    it("is the same for a repeat by the same instance, whatever the log has by then", async () => {
      await facade.apply({ type: "rows_begun" });
      facade.gitea.rows = 3;
      const first = await withLogRows((options) => beat(client, options));
      facade.gitea.rows = 99;
      await facade.clock.step(5_000);
      const repeated = await withLogRows((options) => beat(client, options));
      assert.deepEqual([first.logRows, repeated.logRows], ["3", "3"]);
      assert.deepEqual(first.answer, repeated.answer);
      assert.equal(facade.gitea.calls.filter((call) => call === "storedRows").length, 1);
    });

    it("says 0 rows without asking as long as the controller has begun none", async () => {
      facade.gitea.rows = 3;
      const { logRows } = await withLogRows((options) => beat(client, options));
      assert.equal(logRows, "0");
      assert.equal(facade.gitea.calls.includes("storedRows"), false);
    });

    it("counts a row of ours that is on its way to Gitea", async () => {
      await facade.apply({ type: "rows_begun" });
      facade.gitea.rows = 3;
      const arrived = Promise.withResolvers<void>();
      const writing = facade.options.logLanes.run(assignment.id, async () => {
        await arrived.promise;
        facade.gitea.rows = 4;
      });
      const claiming = withLogRows((options) => beat(client, options));
      for (let i = 0; i < 5; i++) await settle();
      assert.deepEqual(facade.gitea.calls, []);
      arrived.resolve();
      await writing;
      assert.equal((await claiming).logRows, "4");
    });

    it("waits for Gitea when it has to ask how many rows there are", async () => {
      await facade.apply({ type: "rows_begun" });
      facade.gitea.failNext("storedRows", new GiteaError("transient", "no answer"));
      await refused(beat(), Code.Unavailable);
      assert.equal(claimedPhase(), "starting");
    });

    it("is refused for good to another instance, and to another attempt", async () => {
      await beat();
      await refused(beat(facade.client({ instance: "bootstrap-instance-2" })), Code.Unauthenticated);
      await refused(beat(facade.client({ attempt: anAttempt({ number: 2 }) })), Code.Unauthenticated);
      assert.equal(facade.claim()?.instance, instance);
    });

    it("goes to exactly one of two instances that ask at once", async () => {
      const callers = [client, facade.client({ instance: "bootstrap-instance-2" })];
      const outcomes = await Promise.allSettled(callers.map((caller) => beat(caller)));
      assert.deepEqual(
        outcomes.map(({ status }) => status),
        ["fulfilled", "rejected"],
      );
    });

    it("is not entered for an attempt that lost its place while it was written", async () => {
      const { record } = facade.store.stored.get(assignment.id) ?? {};
      assert.ok(record);
      const attempt = anAttempt({ number: 2 });
      const phase = { name: "starting", attempt, since: 9, deadlineAt: 99 } as const;
      facade.store.overwrite({ ...record, attempts: { begun: 2, burnt: 1 }, phase });
      await refused(beat(), Code.Unauthenticated);
      assert.equal(facade.claim(), undefined);
      assert.deepEqual(facade.gitea.calls, []);
    });

    it("stays when Gitea cannot be told of it, and the repeat tells it", async () => {
      facade.gitea.failNext("updateTask", new GiteaError("transient", "no answer"));
      await refused(beat(), Code.Unavailable);
      assert.equal(claimedPhase(), "claimed");
      await beat();
      assert.equal(facade.gitea.states.length, 1);
    });

    it("is known as its own when it was written and only the answer got lost", async () => {
      facade.store.failNext("update", new Error("no answer"), { done: true });
      await refused(beat(), Code.Unavailable);
      await beat();
      assert.equal(facade.claim()?.instance, instance);
    });

    it("ends with a final refusal when Gitea does not know the task any more, once that is recorded", async () => {
      await facade.apply({ type: "rows_begun" });
      facade.gitea.failNext("storedRows", new GiteaError("gone", "no such task"));
      await refused(beat(), Code.Unauthenticated);
      const { phase } = facade.record();
      assert.ok(phase.name === "finished");
      assert.deepEqual([phase.result, phase.by], ["cancelled", "gitea"]);
      assert.deepEqual(facade.marks, ["finished"]);
    });
  });

  describe("what an executor may not do", () => {
    beforeEach(async () => {
      await beat();
    });
    const stranger = 43n;
    it("touches no other task", async () => {
      const before = facade.gitea.calls.length;
      await refused(client.updateTask({ state: { id: stranger } }), Code.PermissionDenied);
      await refused(
        client.updateTask({ state: { id: stranger, result: Result.SUCCESS } }),
        Code.PermissionDenied,
      );
      await refused(client.updateLog({ taskId: stranger, index: 0n }), Code.PermissionDenied);
      await refused(client.updateLog({ index: 0n }), Code.PermissionDenied);
      assert.equal(facade.gitea.calls.length, before);
    });

    const step = { id: 0n, logIndex: 0n, logLength: 0n };
    const nonsense: readonly (readonly [string, Parameters<typeof client.updateTask>[0]])[] = [
      ["no state", {}],
      ["a result that does not exist", { state: { id: taskId, result: 9 as Result } }],
      ["a negative result", { state: { id: taskId, result: -1 as Result } }],
      ["a negative log index", { state: { id: taskId, steps: [{ ...step, logIndex: -1n }] } }],
      ["a negative log length", { state: { id: taskId, steps: [{ ...step, logLength: -1n }] } }],
      [
        "a log index beyond all numbers",
        { state: { id: taskId, steps: [{ ...step, logIndex: 2n ** 62n }] } },
      ],
      ["a step id beyond all numbers", { state: { id: taskId, steps: [{ ...step, id: 2n ** 62n }] } }],
      [
        "a time beyond all times",
        { state: { id: taskId, steps: [{ ...step, startedAt: { seconds: 2n ** 60n } }] } },
      ],
      ["thousands of steps", { state: { id: taskId, steps: Array.from({ length: 10_001 }, () => step) } }],
    ];
    for (const [what, request] of nonsense) {
      it(`reports no state with ${what}: it would spoil the record`, async () => {
        const before = facade.gitea.calls.length;
        await refused(client.updateTask(request), Code.InvalidArgument);
        assert.equal(facade.gitea.calls.length, before);
        assert.deepEqual(facade.record().steps, []);
      });
    }

    it("writes no log at a negative index", async () => {
      await refused(client.updateLog({ taskId, index: -1n }), Code.InvalidArgument);
    });
  });

  it("writes no log before the claim", async () => {
    await refused(client.updateLog({ taskId, index: 0n, rows: [{ content: "x" }] }), Code.FailedPrecondition);
    assert.deepEqual(facade.gitea.calls, []);
  });

  describe("states", () => {
    it("pass in both directions as they are, fields that we do not know included", async () => {
      facade.gitea.unknown = [unknownField];
      const request = create(UpdateTaskRequestSchema, {
        state: { id: taskId, steps: [{ id: 0n, result: Result.SUCCESS, logLength: 4n }] },
        outputs: { digest: "abc" },
      });
      request.$unknown = [unknownField];
      if (request.state) request.state.$unknown = [unknownField];
      const answer = await client.updateTask(request);
      assert.deepEqual(facade.gitea.states[0], request);
      assert.deepEqual(answer.$unknown, [unknownField]);
      assert.deepEqual(answer.sentOutputs, ["digest"]);
    });

    it("are recorded when a step starts or ends, and not when only its log grows", async () => {
      await beat();
      const startedAt = timestampFromDate(new Date("2026-01-01T00:00:01Z"));
      const report = (logLength: bigint, result: Result = Result.UNSPECIFIED) =>
        client.updateTask({ state: { id: taskId, steps: [{ startedAt, logLength, result }] } });
      await report(1n);
      const writes = facade.store.writes.length;
      await report(2n);
      assert.equal(facade.store.writes.length, writes);
      await report(3n, Result.SUCCESS);
      assert.equal(facade.store.writes.length, writes + 1);
      assert.deepEqual(facade.record().steps, [
        { id: 0, logIndex: 0, logLength: 3, startedAt: "2026-01-01T00:00:01.000Z", result: "success" },
      ]);
    });

    it("I10 reach Gitea though the record cannot be written, and the record catches up", async () => {
      await beat();
      facade.store.failNext("update", new Error("NATS is away"));
      const steps = [{ result: Result.SUCCESS }];
      await client.updateTask({ state: { id: taskId, steps } });
      assert.equal(facade.gitea.states.at(-1)?.state?.steps.length, 1);
      assert.deepEqual(facade.record().steps, []);
      await client.updateTask({ state: { id: taskId, steps } });
      assert.equal(facade.record().steps.length, 1);
    });

    it("end a bootstrap when Gitea says that the task is not ours any more, and for no other error", async () => {
      await beat();
      for (const fault of ["transient", "unregistered"] as const) {
        facade.gitea.failNext("updateTask", new GiteaError(fault, "no answer"));
        await refused(beat(), Code.Unavailable);
        assert.equal(claimedPhase(), "claimed");
      }
      facade.gitea.failNext("updateTask", new GiteaError("gone", "no such task"));
      await refused(beat(), Code.Unauthenticated);
      const { phase } = facade.record();
      assert.ok(phase.name === "finished");
      assert.deepEqual([phase.result, phase.by], ["cancelled", "gitea"]);
      assert.deepEqual(facade.marks, ["finished"]);
    });

    it("do not end a bootstrap before it is recorded that the task is not ours any more", async () => {
      await beat();
      facade.gitea.failNext("updateTask", new GiteaError("gone", "no such task"));
      facade.store.failNext("update", new Error("NATS is away"));
      await refused(beat(), Code.Unavailable, /NATS/);
      assert.equal(claimedPhase(), "claimed");
      facade.gitea.failNext("updateTask", new GiteaError("gone", "no such task"));
      await refused(beat(), Code.Unauthenticated);
    });

    it("come one after the other, in the order in which they were sent", async () => {
      await beat();
      const release = facade.gitea.hold("updateTask");
      const running = client.updateTask({ state: { id: taskId, steps: [{ logLength: 1n }] } });
      await settle();
      const over = terminal();
      await settle();
      release();
      await Promise.all([running, over]);
      assert.deepEqual(
        facade.gitea.states.map(({ state }) => state?.result),
        [Result.UNSPECIFIED, Result.UNSPECIFIED, Result.SUCCESS],
      );
      assert.equal(facade.gitea.busy.most, 1);
    });
  });

  describe("the log", () => {
    beforeEach(async () => {
      await beat();
    });
    const rows = (...contents: string[]) => contents.map((content) => ({ content }));

    it("passes as it is, fields that we do not know included", async () => {
      const request = create(UpdateLogRequestSchema, {
        taskId,
        index: 5n,
        rows: rows("a", "b"),
        noMore: true,
      });
      request.$unknown = [unknownField];
      assert.equal((await client.updateLog(request)).ackIndex, 7n);
      assert.deepEqual(facade.gitea.logs, [request]);
    });

    it("is written one call at a time for a task, in order, and beside that of another", async () => {
      const other = anAssignment({ taskId: 52n });
      await facade.started(other);
      const neighbour = facade.client({ assignment: other });
      await neighbour.updateTask({ state: { id: 52n } });
      const release = facade.gitea.hold("updateLog");
      const all = [0n, 1n, 2n].map((index) => client.updateLog({ taskId, index, rows: rows("x") }));
      all.push(neighbour.updateLog({ taskId: 52n, index: 0n, rows: rows("y") }));
      await settle();
      assert.equal(facade.gitea.busy.now, 2);
      release();
      await Promise.all(all);
      assert.equal(facade.gitea.busy.most, 2);
      assert.deepEqual(
        facade.gitea.logs.filter((log) => log.taskId === taskId).map(({ index }) => index),
        [0n, 1n, 2n],
      );
    });

    it("does not hold up the task's states", async () => {
      const release = facade.gitea.hold("updateLog");
      const log = client.updateLog({ taskId, index: 0n, rows: rows("x") });
      await terminal();
      release();
      await log;
    });

    it("goes on after a call that failed", async () => {
      facade.gitea.failNext("updateLog", new GiteaError("transient", "no answer"));
      await refused(client.updateLog({ taskId, index: 0n, rows: rows("x") }), Code.Unavailable);
      assert.equal((await client.updateLog({ taskId, index: 0n, rows: rows("x") })).ackIndex, 1n);
    });

    it("counts rows as stored when Gitea has closed it", async () => {
      facade.gitea.failNext("updateLog", new GiteaError("log-archived", "it is archived"));
      assert.equal((await client.updateLog({ taskId, index: 4n, rows: rows("a", "b") })).ackIndex, 6n);
    });

    it("may still be written after the result", async () => {
      await terminal();
      assert.equal((await client.updateLog({ taskId, index: 0n, rows: rows("late") })).ackIndex, 1n);
    });

    it("may still be written while the end is on its way, until our own rows may follow", async () => {
      await facade.apply({ type: "failed", failure: failureFor("deadline", "4 h"), result: "failure" });
      assert.equal((await client.updateLog({ taskId, index: 0n, rows: rows("last") })).ackIndex, 1n);
      await facade.apply({ type: "executor_gone" });
      await refused(client.updateLog({ taskId, index: 1n, rows: rows("late") }), Code.Unauthenticated);
      await facade.assignments.within(assignment.id, () => facade.ends.deliver(assignment.id, soon()));
      assert.equal(claimedPhase(), "finished");
      await refused(client.updateLog({ taskId, index: 1n, rows: rows("later") }), Code.Unauthenticated);
    });

    it("I11 takes no row of the executor's that waited until our own were written", async () => {
      await facade.apply({ type: "failed", failure: failureFor("silent", "5 min"), result: "failure" });
      await facade.apply({ type: "executor_gone" });
      const release = facade.gitea.hold("updateLog");
      const ours = facade.assignments.within(assignment.id, () => facade.ends.deliver(assignment.id, soon()));
      while (!facade.gitea.calls.includes("updateLog")) await settle();
      const late = client.updateLog({ taskId, index: 0n, rows: rows("late") });
      await settle();
      release();
      await refused(late, Code.Unauthenticated);
      assert.equal((await ours).phase.name, "finished");
      const contents = facade.gitea.logs.flatMap((log) => log.rows.map(({ content }) => content));
      assert.match(contents[0] ?? "", /^This job was cut short/);
      assert.equal(contents.includes("late"), false);
    });
  });

  it("lets what hears of executors know of each admitted call, and of no other", async () => {
    await client.declare({});
    await client.fetchTask({});
    await beat();
    await client.updateLog({ taskId, index: 0n, rows: [{ content: "x" }] });
    assert.deepEqual(new Set(facade.heard), new Set([assignment.id]));
    const { length } = facade.heard;
    assert.ok(length >= 4);
    await refused(beat(facade.client({ instance: "bootstrap-instance-2" })), Code.Unauthenticated);
    await refused(facade.client({ attempt: anAttempt({ number: 2 }) }).declare({}), Code.Unauthenticated);
    await refused(facade.client({ peer: "spiffe://example.org/x" }).declare({}), Code.PermissionDenied);
    assert.equal(facade.heard.length, length);
  });

  it("tells whom it refuses and why, without capability or task", async () => {
    const spiffeId = "spiffe://example.org/x";
    await refused(facade.client({ peer: spiffeId }).fetchTask({}), Code.PermissionDenied);
    const [call] = facade.refused;
    assert.deepEqual([call?.kind, call?.method, call?.spiffeId], ["capability", "FetchTask", spiffeId]);
    assert.equal(JSON.stringify(call).includes(anAttempt().nonce), false);
  });

  it("hears an executor whose capability no key verifies, if it has its job's SVID: the keys may be wrong for a while", async () => {
    const bad = `1.${anAttempt().nonce}.${"A".repeat(43)}`;
    const earlier = facade.heard.length;
    for (const caller of [
      { capability: bad, peer: "spiffe://example.org/x" },
      { capability: bad, peer: "" },
      { attempt: anAttempt({ number: 2 }) },
    ])
      await assert.rejects(facade.client(caller).updateTask({ state: { id: taskId } }));
    assert.equal(facade.heard.length, earlier);
    await assert.rejects(facade.client({ capability: bad }).updateTask({ state: { id: taskId } }));
    assert.deepEqual(facade.heard.slice(earlier), [assignment.id]);
  });

  it("tells whether a refused caller has the SVID of the live assignment that it names", async () => {
    const bad = `1.${anAttempt().nonce}.${"A".repeat(43)}`;
    const unknown = anAssignment({ taskId: 77n });
    const cases = [
      [{ capability: bad }, assignment.id],
      [{ capability: bad, peer: "spiffe://example.org/x" }, undefined],
      [{ capability: bad, peer: "" }, undefined],
      [{ capability: bad, assignmentId: unknown.id }, undefined],
      [{ attempt: anAttempt({ nonce: "f".repeat(32) }) }, assignment.id],
    ] as const;
    for (const [caller] of cases) await assert.rejects(facade.client(caller).fetchTask({}));
    assert.deepEqual(
      facade.refused.map((call) => call.assignment),
      cases.map(([, id]) => id),
    );
  });
});
