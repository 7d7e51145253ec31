import assert from "node:assert/strict";
import { create, toBinary } from "@bufbuild/protobuf";
import { WireType } from "@bufbuild/protobuf/wire";
import { timestampFromDate, timestampMs } from "@bufbuild/protobuf/wkt";
import { type CallOptions, Code, ConnectError } from "@connectrpc/connect";
import { beforeEach, describe, it } from "mocha";
import { callHeaders } from "../../../controller/assignment/executor-call.ts";
import { beginAttempt, finish } from "../../../controller/assignment/record.ts";
import { GiteaError } from "../../../controller/protocol/errors.ts";
import {
  Result,
  TaskSchema,
  type UpdateTaskRequest,
  UpdateTaskRequestSchema,
  UpdateLogRequestSchema,
} from "../../../proto/gen/runner/v1/runner_pb.ts";
import { settle } from "../../fakes/fake-clock.ts";
import { aTask } from "../../support/a-task.ts";
import { anAssignment, anAttempt } from "../../support/builders.ts";
import { createFacadeUnderTest, type FacadeUnderTest, instance } from "../../support/facade-under-test.ts";

const assignment = anAssignment();
const taskId = assignment.taskId;
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
      await refused(facade.client({ attempt: anAttempt({ number: 2 }) }).declare({}), Code.Unauthenticated);
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
      await facade.change((record) => beginAttempt(record, anAttempt({ number: 2 }).nonce, 2) ?? record);
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
      await facade.change((record) => ({ ...record, rowsBegun: true }));
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

    it("waits for Gitea when it has to ask how many rows there are", async () => {
      await facade.change((record) => ({ ...record, rowsBegun: true }));
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
      const moved = beginAttempt(record, anAttempt({ number: 2 }).nonce, 9);
      assert.ok(moved);
      facade.store.overwrite(moved);
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

    it("I10 is entered by the result itself when the record of a running job was lost", async () => {
      await terminal();
      assert.equal(facade.claim()?.instance, instance);
      assert.equal(claimedPhase(), "finished");
      assert.equal(facade.gitea.states.length, 1);
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

    it("tell the executor of a cancel, and record nothing for it", async () => {
      await beat();
      facade.gitea.says = Result.CANCELLED;
      assert.equal((await beat()).state?.result, Result.CANCELLED);
      assert.equal(claimedPhase(), "claimed");
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
      facade.gitea.failNext("updateTask", new GiteaError("gone", "no such task"));
      await refused(beat(), Code.Unauthenticated);
      for (const fault of ["transient", "unregistered"] as const) {
        facade.gitea.failNext("updateTask", new GiteaError(fault, "no answer"));
        await refused(beat(), Code.Unavailable);
      }
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

  describe("the result", () => {
    beforeEach(async () => {
      await beat();
    });

    it("B-72 is taken by Gitea, then recorded, then marked, then answered", async () => {
      const release = facade.gitea.hold("updateTask");
      const answer = terminal();
      await settle();
      assert.equal(claimedPhase(), "claimed");
      assert.deepEqual(facade.marks, []);
      release();
      assert.equal((await answer).state?.result, Result.SUCCESS);
      assert.deepEqual(facade.marks, ["finished"], "the record said so when it was marked");
      assert.deepEqual(facade.store.writes.at(-1), "finished");
    });

    it("B-72 fails the call when the marker fails, and a repeat marks without telling Gitea again", async () => {
      facade.failNextMark(new Error("the API server is away"));
      await refused(terminal(), Code.Unavailable, /API server/);
      assert.equal(claimedPhase(), "finished");
      const told = facade.gitea.states.length;
      const answer = await terminal();
      assert.equal(answer.state?.result, Result.SUCCESS);
      assert.deepEqual(answer.sentOutputs, ["digest"]);
      assert.deepEqual(facade.marks, ["finished"]);
      assert.equal(facade.gitea.states.length, told);
    });

    it("B-72 fails the call when the record cannot be written, and a repeat tells Gitea again", async () => {
      facade.store.failNext("update", new Error("no answer"));
      await refused(terminal(), Code.Unavailable);
      assert.deepEqual(facade.marks, []);
      assert.equal(claimedPhase(), "claimed");
      await terminal();
      assert.equal(claimedPhase(), "finished");
      assert.deepEqual(facade.marks, ["finished"]);
    });

    it("B-72 is recorded once when the record was written and only the answer got lost", async () => {
      facade.store.failNext("update", new Error("no answer"), { done: true });
      await refused(terminal(), Code.Unavailable);
      await terminal();
      assert.equal(claimedPhase(), "finished");
      assert.deepEqual(facade.marks, ["finished"]);
    });

    for (const done of [false, true]) {
      it(`is not recorded when Gitea ${done ? "took it and does not say so" : "does not answer"}`, async () => {
        facade.gitea.failNext("updateTask", new GiteaError("transient", "no answer"), { done });
        await refused(terminal(), Code.Unavailable);
        assert.equal(claimedPhase(), "claimed");
        await terminal();
        assert.equal(claimedPhase(), "finished");
      });
    }

    it("is not recorded when Gitea answers without one", async () => {
      facade.gitea.says = Result.UNSPECIFIED;
      await refused(terminal(), Code.Unavailable);
      assert.equal(claimedPhase(), "claimed");
      assert.deepEqual(facade.marks, []);
    });

    it("is what Gitea says, not what the executor said", async () => {
      facade.gitea.says = Result.CANCELLED;
      assert.equal((await terminal(Result.SUCCESS)).state?.result, Result.CANCELLED);
      const { phase } = facade.record();
      assert.ok(phase.name === "finished");
      assert.equal(phase.result, "cancelled");
    });

    it("is answered the same to every repeat, also to one that says something else or nothing", async () => {
      await terminal(Result.SUCCESS);
      const told = facade.gitea.states.length;
      for (const result of [Result.SUCCESS, Result.FAILURE, Result.UNSPECIFIED])
        assert.equal((await terminal(result)).state?.result, Result.SUCCESS);
      assert.equal(facade.gitea.states.length, told);
    });

    it("is told to Gitea once when it is sent twice at once", async () => {
      const [one, two] = await Promise.all([terminal(), terminal()]);
      assert.deepEqual(one.state, two.state);
      assert.equal(facade.gitea.states.filter(({ state }) => state?.result === Result.SUCCESS).length, 1);
    });

    it("is the controller's when that was first", async () => {
      await facade.change((record) => finish(record, "failure", 1));
      assert.equal((await terminal(Result.SUCCESS)).state?.result, Result.FAILURE);
    });

    const stopped = (request: UpdateTaskRequest | undefined) => request?.state?.stoppedAt;
    it("gets the time of its end if it has none, and keeps one that it has", async () => {
      await facade.clock.step(60_000);
      await terminal();
      const filled = stopped(facade.gitea.states.at(-1));
      assert.equal(filled && timestampMs(filled), facade.clock.now());
      const other = anAssignment({ taskId: 51n });
      await facade.started(other);
      const stoppedAt = timestampFromDate(new Date("2026-01-01T00:00:07Z"));
      const caller = facade.client({ assignment: other });
      await caller.updateTask({ state: { id: 51n } });
      await caller.updateTask({ state: { id: 51n, result: Result.FAILURE, stoppedAt } });
      assert.deepEqual(stopped(facade.gitea.states.at(-1)), stoppedAt);
    });

    it("puts the result of the job into the log, and nothing of its task", async () => {
      await terminal();
      const line = facade.log.lines.find(({ message }) => message === "task over");
      assert.deepEqual(line?.fields, { assignment: assignment.id, result: "success" });
      assert.equal(facade.log.text().includes("not-a-token"), false);
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
  });

  it("tells whom it refuses and why, without capability or task", async () => {
    const spiffeId = "spiffe://example.org/x";
    await refused(facade.client({ peer: spiffeId }).fetchTask({}), Code.PermissionDenied);
    const [call] = facade.refused;
    assert.deepEqual([call?.kind, call?.method, call?.spiffeId], ["capability", "FetchTask", spiffeId]);
    assert.equal(JSON.stringify(call).includes(anAttempt().nonce), false);
  });

  it("tells whether a refused caller has the SVID of the live assignment that it names", async () => {
    const bad = `1.${anAttempt().nonce}.${"A".repeat(43)}`;
    const unknown = anAssignment({ taskId: 77n });
    const cases = [
      [{ capability: bad }, assignment.id],
      [{ capability: bad, peer: "spiffe://example.org/x" }, undefined],
      [{ capability: bad, peer: "" }, undefined],
      [{ capability: bad, assignmentId: unknown.id }, undefined],
      [{ attempt: anAttempt({ number: 2 }) }, assignment.id],
    ] as const;
    for (const [caller] of cases) await assert.rejects(facade.client(caller).fetchTask({}));
    assert.deepEqual(
      facade.refused.map((call) => call.assignment),
      cases.map(([, id]) => id),
    );
  });
});
