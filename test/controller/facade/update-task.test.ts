import assert from "node:assert/strict";
import { create, fromBinary } from "@bufbuild/protobuf";
import { WireType } from "@bufbuild/protobuf/wire";
import { timestampFromDate, timestampMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { beforeEach, describe, it } from "mocha";
import { callHeaders } from "../../../controller/assignment/executor-call.ts";
import { failureFor } from "../../../controller/assignment/failure.ts";
import { GiteaError } from "../../../controller/protocol/errors.ts";
import { Result, UpdateTaskRequestSchema } from "../../../proto/gen/runner/v1/runner_pb.ts";
import { settle } from "../../fakes/fake-clock.ts";
import { anAssignment, anAttempt, testStart } from "../../support/builders.ts";
import { createFacadeUnderTest, type FacadeUnderTest, instance } from "../../support/facade-under-test.ts";

const assignment = anAssignment();
const { id, taskId } = assignment;
const away = new Error("NATS is away");
const noAnswer = new GiteaError("transient", "no answer");
const startedAt = timestampFromDate(new Date("2026-01-01T00:00:01Z"));
/** Long enough for everything here; begins when it is asked for. */
const soon = () => AbortSignal.timeout(50_000);

/** Rejects with this code. */
async function refused(call: Promise<unknown>, code: Code, message = /./): Promise<void> {
  await assert.rejects(call, (error: unknown) => {
    assert.ok(error instanceof ConnectError, String(error));
    assert.equal(Code[error.code], Code[code], error.message);
    assert.match(error.message, message);
    return true;
  });
}

describe("UpdateTask", () => {
  let facade: FacadeUnderTest;
  let client: ReturnType<FacadeUnderTest["client"]>;
  beforeEach(async () => {
    facade = createFacadeUnderTest();
    client = facade.client();
    await facade.started();
  });
  const beat = (from = client) => from.updateTask({ state: { id: taskId } });
  const final = (result: Result = Result.SUCCESS, from = client) =>
    from.updateTask({ state: { id: taskId, result }, outputs: { digest: "abc" } });
  const phaseName = () => facade.record().phase.name;
  const results = () =>
    facade.gitea.states.map(({ state }) => state?.result ?? 0).filter((result) => result !== 0);
  const deliver = () => facade.assignments.within(id, () => facade.ends.deliver(id, soon()));
  const finished = () => {
    const { phase } = facade.record();
    assert.ok(phase.name === "finished", phase.name);
    return { result: phase.result, by: phase.by };
  };

  describe("of a running job", () => {
    beforeEach(async () => {
      await beat();
    });

    it("tells the executor of a cancel, records when it was told first, and goes on", async () => {
      facade.gitea.says = Result.CANCELLED;
      assert.equal((await beat()).state?.result, Result.CANCELLED);
      const first = facade.clock.now();
      await facade.clock.step(10_000);
      assert.equal((await beat()).state?.result, Result.CANCELLED);
      const { phase } = facade.record();
      assert.ok(phase.name === "claimed");
      assert.equal(phase.cancelledAt, first);
    });

    it("I6 tells the executor of a cancel though it cannot be recorded, and the record catches up", async () => {
      facade.gitea.says = Result.CANCELLED;
      facade.store.failNext("update", away);
      assert.equal((await beat()).state?.result, Result.CANCELLED);
      assert.equal("cancelledAt" in facade.record().phase, false);
      await beat();
      assert.equal("cancelledAt" in facade.record().phase, true);
    });

    it("I6 tells the executor of a cancel in time though the record does not answer", async () => {
      facade.gitea.says = Result.CANCELLED;
      const release = facade.store.hold("update");
      const answer = beat();
      await facade.clock.step(5_000);
      assert.equal((await answer).state?.result, Result.CANCELLED);
      release();
    });

    for (const [said, result] of [
      [Result.FAILURE, "failure"],
      [Result.SUCCESS, "success"],
      [Result.SKIPPED, "skipped"],
    ] as const)
      it(`records that Gitea has ended the task by itself with ${result}, and passes that on`, async () => {
        facade.gitea.says = said;
        assert.equal((await beat()).state?.result, said);
        assert.deepEqual(finished(), { result, by: "gitea" });
        assert.deepEqual(facade.marks, ["finished"]);
        const told = facade.gitea.states.length;
        assert.equal((await final(Result.SUCCESS)).state?.result, said);
        assert.equal(facade.gitea.states.length, told, "nobody wants to know");
      });

    it("passes on that Gitea has ended the task though it cannot be recorded", async () => {
      facade.gitea.says = Result.FAILURE;
      facade.store.failNext("update", away);
      assert.equal((await beat()).state?.result, Result.FAILURE);
      assert.equal(phaseName(), "claimed");
      // What the executor reports when it has wound up brings the record where it belongs.
      assert.equal((await final(Result.CANCELLED)).state?.result, Result.FAILURE);
      assert.deepEqual(finished(), { result: "failure", by: "executor" });
    });

    it("is unavailable before its caller gives up when Gitea does not answer", async () => {
      const release = facade.gitea.hold("updateTask");
      const call = refused(beat(), Code.Unavailable, /no answer within/);
      await facade.clock.step(9_000);
      await call;
      release();
    });
  });

  describe("with a result", () => {
    beforeEach(async () => {
      await beat();
    });

    it("B-72 is stored, recorded, told to Gitea, recorded as accepted, marked, then answered", async () => {
      const steps: string[] = [];
      const releases = {
        put: facade.reports.hold("put"),
        gitea: facade.gitea.hold("updateTask"),
      };
      let answered = false;
      const answer = final().finally(() => (answered = true));
      const look = async () => {
        for (let i = 0; i < 3; i++) await settle();
        const told = facade.gitea.calls.length - 1;
        steps.push(
          `${phaseName()} stored=${facade.reports.stored.size} told=${told} marks=${facade.marks.length}`,
        );
        assert.equal(answered, false);
      };
      await look();
      releases.put();
      await look();
      releases.gitea();
      assert.equal((await answer).state?.result, Result.SUCCESS);
      assert.deepEqual(steps, ["claimed stored=0 told=0 marks=0", "ending stored=1 told=1 marks=0"]);
      assert.deepEqual(facade.marks, ["finished"], "the record said so when it was marked");
      assert.deepEqual(facade.store.writes.slice(-2), ["ending", "finished"]);
      assert.deepEqual(finished(), { result: "success", by: "executor" });
    });

    it("reaches Gitea as it was sent, fields that we do not know included", async () => {
      const unknownField = { no: 1999, wireType: WireType.LengthDelimited, data: Uint8Array.of(3, 1, 2, 3) };
      const stoppedAt = timestampFromDate(new Date("2026-01-01T00:00:07Z"));
      const request = create(UpdateTaskRequestSchema, {
        state: { id: taskId, result: Result.FAILURE, stoppedAt, steps: [{ id: 0n, result: Result.FAILURE }] },
        outputs: { digest: "abc", empty: "" },
      });
      request.$unknown = [unknownField];
      if (request.state) request.state.$unknown = [unknownField];
      const { sentOutputs } = await client.updateTask(request);
      assert.deepEqual(facade.gitea.states.at(-1), request);
      assert.deepEqual(sentOutputs, ["digest", "empty"]);
      const [bytes = new Uint8Array()] = facade.reports.stored.values();
      assert.deepEqual(fromBinary(UpdateTaskRequestSchema, bytes), request);
    });

    it("gets the time at which it was stored if it says no end of its own", async () => {
      await facade.clock.step(60_000);
      const storedAt = facade.clock.now();
      facade.gitea.failNext("updateTask", noAnswer);
      await final();
      await facade.clock.step(60_000);
      await deliver();
      const stoppedAt = facade.gitea.states.at(-1)?.state?.stoppedAt;
      assert.equal(stoppedAt && timestampMs(stoppedAt), storedAt);
    });

    it("claims the task itself when the record of the running job was lost", async () => {
      const fresh = createFacadeUnderTest();
      const orphan = { assignment, attempt: anAttempt(), createdAt: testStart };
      await fresh.assignments.within(id, () => fresh.assignments.adopt(orphan, soon()));
      assert.equal(fresh.record().phase.name, "adopted");
      let rows: string | null = null;
      const { state } = await fresh
        .client()
        .updateTask(
          { state: { id: taskId, result: Result.SUCCESS } },
          { onHeader: (headers) => (rows = headers.get(callHeaders.logRows)) },
        );
      assert.equal(state?.result, Result.SUCCESS);
      assert.equal(fresh.claim()?.instance, instance);
      assert.equal(rows, "0");
      assert.equal(fresh.record().phase.name, "finished");
    });

    describe("while Gitea is away", () => {
      it("counts as taken, with its outputs, and the controller delivers it without the executor", async () => {
        facade.gitea.failNext("updateTask", noAnswer);
        const { state, sentOutputs } = await final(Result.FAILURE);
        assert.deepEqual([state?.result, sentOutputs], [Result.FAILURE, ["digest"]]);
        assert.equal(phaseName(), "ending");
        assert.deepEqual(facade.marks, [], "Gitea has not taken it");
        assert.equal(facade.over(), 1, "the executor may end");
        await deliver();
        assert.deepEqual(finished(), { result: "failure", by: "executor" });
        assert.deepEqual(facade.gitea.states.at(-1)?.outputs, { digest: "abc" });
        assert.deepEqual(facade.marks, ["finished"]);
      });

      it("is answered well before its caller gives up, however long Gitea hangs", async () => {
        const release = facade.gitea.hold("updateTask");
        const answer = final();
        await facade.clock.step(5_000);
        assert.equal((await answer).state?.result, Result.SUCCESS);
        assert.equal(phaseName(), "ending");
        release();
      });

      it("is delivered by a repetition of the executor's as well", async () => {
        facade.gitea.failNext("updateTask", noAnswer);
        await final();
        assert.equal((await final()).state?.result, Result.SUCCESS);
        assert.deepEqual(finished(), { result: "success", by: "executor" });
        assert.deepEqual(results(), [Result.SUCCESS]);
        assert.equal(facade.reports.calls.filter((call) => call === "put").length, 1);
      });

      it("is told again when Gitea took it and its answer got lost", async () => {
        facade.gitea.failNext("updateTask", noAnswer, { done: true });
        await final();
        assert.equal(phaseName(), "ending");
        await deliver();
        assert.deepEqual(finished(), { result: "success", by: "executor" });
        assert.deepEqual(results(), [Result.SUCCESS, Result.SUCCESS]);
      });

      it("is told again when Gitea answers without a result", async () => {
        facade.gitea.says = Result.UNSPECIFIED;
        assert.equal((await final()).state?.result, Result.SUCCESS);
        assert.equal(phaseName(), "ending");
        assert.deepEqual(facade.marks, []);
        facade.gitea.says = undefined;
        await deliver();
        assert.deepEqual(finished(), { result: "success", by: "executor" });
      });

      it("stands: a beat that comes after it hears of it, and a later result is told to nobody", async () => {
        for (let i = 0; i < 3; i++) facade.gitea.failNext("updateTask", noAnswer);
        await final(Result.FAILURE);
        assert.equal((await beat()).state?.result, Result.FAILURE);
        assert.equal((await final(Result.SUCCESS)).state?.result, Result.FAILURE);
        await deliver();
        assert.deepEqual(results(), [Result.FAILURE]);
        const line = facade.log.lines.find(({ message }) => message.includes("not the one that stands"));
        assert.deepEqual(line?.fields, { assignment: id, said: "success", stands: "failure" });
      });
    });

    describe("while it cannot be stored", () => {
      const running = { id: 0n, startedAt, result: Result.SUCCESS, logLength: 4n };
      const withSteps = () =>
        client.updateTask({
          state: { id: taskId, result: Result.SUCCESS, startedAt, stoppedAt: startedAt, steps: [running] },
          outputs: { digest: "abc" },
        });

      for (const [what, fail] of [
        ["the report", () => facade.reports.failNext("put", away)],
        ["the record", () => facade.store.failNext("update", away)],
      ] as const)
        it(`because of ${what}, is unavailable, not told to Gitea, and Gitea hears that the job is there`, async () => {
          fail();
          await refused(withSteps(), Code.Unavailable, /NATS/);
          assert.equal(phaseName(), "claimed");
          assert.deepEqual(results(), []);
          const spared = facade.gitea.states.at(-1);
          assert.equal(spared?.state?.result, Result.UNSPECIFIED);
          assert.deepEqual(
            spared.state.steps.map(({ result, logLength }) => [result, logLength]),
            [[Result.SUCCESS, 4n]],
          );
          assert.deepEqual([spared.state.stoppedAt, spared.outputs], [undefined, {}]);
          await withSteps();
          assert.deepEqual(finished(), { result: "success", by: "executor" });
        });

      it("is unavailable though Gitea is away as well", async () => {
        facade.reports.failNext("put", away);
        facade.gitea.failNext("updateTask", noAnswer);
        await refused(final(), Code.Unavailable, /NATS/);
        assert.equal(phaseName(), "claimed");
      });

      it("is unavailable before its caller gives up, however long both hang", async () => {
        const releases = [facade.reports.hold("put"), facade.gitea.hold("updateTask")];
        const call = refused(final(), Code.Unavailable, /no answer within/);
        await facade.clock.step(9_000);
        await call;
        for (const release of releases) release();
      });

      it("is recorded once when it was written and only the answer got lost", async () => {
        facade.store.failNext("update", away, { done: true });
        await refused(final(), Code.Unavailable);
        await final();
        assert.deepEqual(finished(), { result: "success", by: "executor" });
        assert.deepEqual(results(), [Result.SUCCESS]);
        assert.deepEqual(facade.marks, ["finished"]);
      });
    });

    it("fails the job by name when it is too large ever to be stored, and the executor is to wind up", async () => {
      facade.reports.maxBytes = 10;
      const { state } = await final(Result.SUCCESS);
      assert.equal(state?.result, Result.FAILURE);
      const { phase } = facade.record();
      assert.ok(phase.name === "ending" && phase.end.by === "controller");
      assert.equal(phase.end.failure?.reason, "result_too_large");
      assert.match(phase.end.failure.evidence, /^it has \d+ bytes, 10 are possible$/);
      assert.deepEqual(results(), []);
      assert.equal(facade.over(), 0, "it may still have rows");
    });

    it("is unavailable when it is too large and that cannot be recorded", async () => {
      facade.reports.maxBytes = 10;
      facade.store.failNext("update", away);
      await refused(final(), Code.Unavailable, /NATS/);
      assert.equal(phaseName(), "claimed");
    });

    it("B-72 fails the call when the marker fails, and a repeat marks without telling Gitea again", async () => {
      facade.failNextMark(new Error("the API server is away"));
      await refused(final(), Code.Unavailable, /API server/);
      assert.equal(phaseName(), "finished");
      const told = facade.gitea.states.length;
      const answer = await final();
      assert.equal(answer.state?.result, Result.SUCCESS);
      assert.deepEqual(answer.sentOutputs, ["digest"]);
      assert.deepEqual(facade.marks, ["finished"]);
      assert.equal(facade.gitea.states.length, told);
    });

    it("B-72 is not marked, but counts as taken, when Gitea's word cannot be recorded, and is told again", async () => {
      const release = facade.gitea.hold("updateTask");
      const answer = final();
      while (phaseName() !== "ending") await settle();
      facade.store.failNext("update", away);
      release();
      assert.equal((await answer).state?.result, Result.SUCCESS);
      assert.equal(phaseName(), "ending");
      assert.deepEqual(facade.marks, []);
      await deliver();
      assert.deepEqual(finished(), { result: "success", by: "executor" });
      assert.deepEqual(facade.marks, ["finished"]);
    });

    it("is shown as what Gitea says, not what the executor said", async () => {
      facade.gitea.says = Result.CANCELLED;
      assert.equal((await final(Result.SUCCESS)).state?.result, Result.CANCELLED);
      assert.deepEqual(finished(), { result: "cancelled", by: "executor" });
    });

    it("is over as cancelled when Gitea does not know the task any more", async () => {
      facade.gitea.failNext("updateTask", new GiteaError("gone", "no such task"));
      assert.equal((await final(Result.SUCCESS)).state?.result, Result.CANCELLED);
      assert.deepEqual(finished(), { result: "cancelled", by: "gitea" });
    });

    it("is answered the same to every repeat, also to one that says something else or nothing", async () => {
      await final(Result.SUCCESS);
      const told = facade.gitea.states.length;
      for (const result of [Result.SUCCESS, Result.FAILURE, Result.UNSPECIFIED])
        assert.equal((await final(result)).state?.result, Result.SUCCESS);
      assert.equal(facade.gitea.states.length, told);
    });

    it("is told to Gitea once when it is sent twice at once", async () => {
      const [one, two] = await Promise.all([final(), final()]);
      assert.deepEqual(one.state, two.state);
      assert.deepEqual(results(), [Result.SUCCESS]);
    });

    it("puts the result of the job into the log, and nothing of its task", async () => {
      await final();
      const line = facade.log.lines.find(({ message }) => message === "task over");
      assert.deepEqual(line?.fields, { assignment: id, result: "success", by: "executor" });
      assert.equal(facade.log.text().includes("not-a-token"), false);
      assert.equal(facade.log.text().includes("abc"), false);
    });
  });

  describe("after the controller's own decision", () => {
    const failed = {
      type: "failed",
      failure: failureFor("deadline", "it ran for 4 h"),
      result: "failure",
    } as const;

    it("hears it, so that the runner winds up, and Gitea is told nothing by it", async () => {
      await beat();
      await facade.apply(failed);
      const told = facade.gitea.calls.length;
      for (const call of [beat, () => final(Result.SUCCESS)]) {
        const { state } = await call();
        assert.equal(state?.result, Result.FAILURE);
      }
      assert.equal(facade.gitea.calls.length, told);
      assert.equal(phaseName(), "ending");
      assert.equal(facade.over(), 0, "it may still have rows");
      assert.deepEqual(facade.marks, []);
    });

    it("hears it with the number of log rows though it comes before the claim", async () => {
      await facade.apply({ type: "cancel_told" });
      let rows: string | null = null;
      const onHeader = (headers: Headers) => (rows = headers.get(callHeaders.logRows));
      const { state } = await client.updateTask({ state: { id: taskId } }, { onHeader });
      assert.equal(state?.result, Result.CANCELLED);
      assert.equal(rows, "0");
      assert.equal(facade.claim(), undefined);
    });

    it("is marked when it is over, before the answer", async () => {
      await beat();
      await facade.apply(failed);
      await facade.apply({ type: "executor_gone" });
      facade.failNextMark(new Error("the API server is away"));
      await assert.rejects(deliver(), /API server/);
      assert.equal((await final(Result.SUCCESS)).state?.result, Result.FAILURE);
      assert.deepEqual(facade.marks, ["finished"]);
      assert.equal(facade.over(), 1);
    });
  });

  describe("of an executor whose record was lost", () => {
    let adopted: FacadeUnderTest;
    beforeEach(async () => {
      adopted = createFacadeUnderTest();
      const orphan = { assignment, attempt: anAttempt(), createdAt: testStart };
      await adopted.assignments.within(id, () => adopted.assignments.adopt(orphan, soon()));
    });

    it("claims for the first instance that asks, and for no other", async () => {
      await beat(adopted.client());
      assert.equal(adopted.claim()?.instance, instance);
      await refused(beat(adopted.client({ instance: "bootstrap-instance-2" })), Code.Unauthenticated);
    });

    it("I11 is told how many rows the log has, for there may be some of ours", async () => {
      adopted.gitea.rows = 3;
      let rows: string | null = null;
      const onHeader = (headers: Headers) => (rows = headers.get(callHeaders.logRows));
      await adopted.client().updateTask({ state: { id: taskId } }, { onHeader });
      assert.equal(rows, "3");
    });

    it("is not asked for rows when it tells of its job: its result counts though Gitea is away", async () => {
      for (const method of ["storedRows", "updateTask"] as const) adopted.gitea.failNext(method, noAnswer);
      const { state } = await adopted.client().updateTask({ state: { id: taskId, result: Result.SUCCESS } });
      assert.equal(state?.result, Result.SUCCESS);
      assert.equal(adopted.record().phase.name, "ending");
    });

    it("writes its log also before it says anything of its state", async () => {
      const rows = [{ content: "x" }];
      const { ackIndex } = await adopted.client().updateLog({ taskId, index: 7n, rows });
      assert.equal(ackIndex, 8n);
      assert.equal(adopted.record().phase.name, "adopted");
    });

    it("is served its task while the controller still has it, and waits when it has not", async () => {
      await refused(adopted.client().fetchTask({}), Code.Unavailable, /not in hand/);
      const compressedTask = facade.assignments.get(id)?.compressedTask;
      assert.ok(compressedTask !== undefined);
      await adopted.assignments.offer(
        { assignment, fetchedAt: testStart, sequence: 1, compressedTask },
        soon(),
      );
      assert.equal((await adopted.client().fetchTask({})).task?.id, taskId);
      await beat(adopted.client());
      await refused(adopted.client().fetchTask({}), Code.Unauthenticated);
    });
  });

  it("is refused for good to an attempt that was given up, and for now to one that is not known yet", async () => {
    const failure = failureFor("start_failed", "exit code 1");
    await facade.apply({ type: "attempt_lost", attempt: anAttempt(), failure, burnt: true, retryAt: 0 });
    await refused(beat(), Code.Unauthenticated);
    await refused(beat(facade.client({ attempt: anAttempt({ number: 2 }) })), Code.Unavailable);
  });

  it("keeps no result that makes no sense", async () => {
    await beat();
    await refused(client.updateTask({ outputs: { a: "b" } }), Code.InvalidArgument);
    await refused(client.updateTask({ state: { id: 43n, result: Result.SUCCESS } }), Code.PermissionDenied);
    assert.deepEqual(facade.reports.calls, []);
  });
});
