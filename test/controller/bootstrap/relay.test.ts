import assert from "node:assert/strict";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { WireType } from "@bufbuild/protobuf/wire";
import { Code, ConnectError } from "@connectrpc/connect";
import { describe, it } from "mocha";
import { Result, type UpdateTaskRequest } from "../../../proto/gen/runner/v1/runner_pb.ts";
import { facadeInMemory } from "../../support/facade-in-memory.ts";
import { aReport, someRows } from "../../support/runner-reports.ts";
import { settle } from "../../fakes/fake-clock.ts";

const steps = [{ id: 0n, logIndex: 2n, logLength: 5n }, { id: 1n }];
const unknown = [{ no: 90, wireType: WireType.Varint, data: new Uint8Array([7]) }];
const resultsOf = (states: readonly UpdateTaskRequest[]) => states.map(({ state }) => state?.result);
const unavailable = (error: unknown) => error instanceof ConnectError && error.code === Code.Unavailable;

describe("relaying log rows", () => {
  it("counts them from Gitea's rows on, and answers in the runner's numbers", async () => {
    const { facade, newRelay } = facadeInMemory({ logRows: 3 });
    const relay = newRelay();
    assert.equal((await relay.updateLog(someRows(0, ["a", "b"]))).ackIndex, 2n);
    assert.equal((await relay.updateLog(someRows(2, ["c"], true))).ackIndex, 3n);
    assert.deepEqual(facade.rows, ["a", "b", "c"]);
    assert.deepEqual(
      facade.logs.map(({ taskId, index, noMore }) => [taskId, index, noMore]),
      [
        [42n, 3n, false],
        [42n, 5n, true],
      ],
    );
    assert.equal(relay.progress().rows, 3n);
  });

  it("does not store rows twice that are sent again", async () => {
    const { clock, facade, newRelay } = facadeInMemory({ logRows: 3 });
    const relay = newRelay();
    facade.loseNextAnswer("updateLog");
    const lost = assert.rejects(relay.updateLog(someRows(0, ["a", "b"])));
    await facade.called("updateLog");
    await clock.step(10_000);
    await lost;
    assert.equal((await relay.updateLog(someRows(0, ["a", "b", "c"]))).ackIndex, 3n);
    assert.deepEqual(facade.rows, ["a", "b", "c"]);
  });

  it("never acknowledges more rows than it was given, whatever is stored", async () => {
    const { facade, newRelay } = facadeInMemory();
    facade.rows.push("a", "b", "c", "d");
    assert.equal((await newRelay().updateLog(someRows(0, ["a", "b"]))).ackIndex, 2n);
  });

  it("tells the runner where a gap begins", async () => {
    const { facade, newRelay } = facadeInMemory({ logRows: 3 });
    assert.equal((await newRelay().updateLog(someRows(5, ["f"]))).ackIndex, 0n);
    assert.deepEqual(facade.rows, []);
  });

  it("splits what is too large for one call, and says only with the last part that no more follow", async () => {
    const { facade, newRelay } = facadeInMemory({ logRows: 3 });
    const rows = Array.from({ length: 20 }, (_, number) => `${number}`.padEnd(1024 * 1024, "."));
    assert.equal((await newRelay().updateLog(someRows(0, rows, true))).ackIndex, 20n);
    assert.deepEqual(facade.rows, rows);
    assert.deepEqual(
      facade.logs.map(({ index, noMore }) => [index, noMore]),
      [
        [3n, false],
        [10n, false],
        [17n, true],
      ],
    );
  });

  it("sends no later part when an earlier one was not stored", async () => {
    const { facade, newRelay } = facadeInMemory();
    const rows = Array.from({ length: 20 }, () => "x".repeat(1024 * 1024));
    assert.equal((await newRelay().updateLog(someRows(5, rows))).ackIndex, 0n);
    assert.equal(facade.logs.length, 1);
  });

  it("acknowledges the parts that went through when a later one fails", async () => {
    const { facade, newRelay } = facadeInMemory();
    const rows = Array.from({ length: 10 }, () => "x".repeat(1024 * 1024));
    const relay = newRelay();
    const sending = relay.updateLog(someRows(0, rows));
    await facade.called("updateLog");
    facade.fail("updateLog", Code.Unavailable);
    assert.equal((await sending).ackIndex, 7n);
    facade.recover("updateLog");
    assert.equal((await relay.updateLog(someRows(7, rows.slice(7)))).ackIndex, 10n);
    assert.equal(facade.rows.length, 10);
  });

  it("has one call in flight", async () => {
    const { clock, facade, newRelay } = facadeInMemory();
    const relay = newRelay();
    facade.hangNext("updateLog");
    const first = assert.rejects(relay.updateLog(someRows(0, ["a"])));
    const second = relay.updateLog(someRows(0, ["a", "b"]));
    await facade.called("updateLog");
    await settle();
    assert.equal(facade.calls.length, 1);
    await clock.step(10_000);
    await first;
    assert.equal((await second).ackIndex, 2n);
  });

  it("keeps fields that it does not know", async () => {
    const { facade, newRelay } = facadeInMemory();
    const request = someRows(0, ["a"]);
    request.$unknown = unknown;
    await newRelay().updateLog(request);
    assert.deepEqual(facade.logs[0]?.$unknown, unknown);
  });
});

describe("relaying states", () => {
  it("points the steps at Gitea's rows and passes the rest as it is", async () => {
    const { facade, newRelay } = facadeInMemory({ logRows: 3 });
    const report = aReport({ steps }, { version: "1.2" });
    report.$unknown = unknown;
    const answer = await newRelay().updateTask(report);
    assert.deepEqual(answer.sentOutputs, ["version"]);
    const [sent] = facade.states;
    assert.deepEqual(
      sent?.state?.steps.map(({ logIndex, logLength }) => [logIndex, logLength]),
      [
        [5n, 5n],
        [3n, 0n],
      ],
    );
    assert.deepEqual(sent.outputs, { version: "1.2" });
    assert.deepEqual(sent.$unknown, unknown);
  });

  it("never leaves out steps that were reported before", async () => {
    const { facade, newRelay } = facadeInMemory({ logRows: 3 });
    const relay = newRelay();
    await relay.updateTask(aReport({ steps }));
    await relay.updateTask(aReport());
    await relay.beat();
    for (const { state } of facade.states) assert.equal(state?.steps.length, 2);
    assert.equal(facade.states[2]?.state?.steps[0]?.logIndex, 5n);
  });

  it("rejects while the facade is away, and beats with what it was told meanwhile", async () => {
    const { facade, newRelay } = facadeInMemory();
    const relay = newRelay();
    facade.fail("updateTask", Code.Unavailable);
    await assert.rejects(relay.updateTask(aReport({ steps })), unavailable);
    facade.recover("updateTask");
    await relay.beat();
    assert.equal(facade.states[0]?.state?.steps.length, 2);
  });

  it("tells the runner at its next report of a cancel that a beat has heard of", async () => {
    const { facade, newRelay } = facadeInMemory();
    const relay = newRelay();
    facade.result = Result.CANCELLED;
    await relay.beat();
    facade.fail("updateTask", Code.Unavailable);
    const answer = await relay.updateTask(aReport({ steps }, { version: "1.2" }));
    assert.equal(answer.state?.result, Result.CANCELLED);
    assert.deepEqual(answer.sentOutputs, []);
    assert.equal(relay.progress().state.steps.length, 2);
  });

  it("tells the runner to wind up, in the only way that every version heeds, however Gitea ended the job", async () => {
    const { facade, newRelay } = facadeInMemory();
    const relay = newRelay();
    assert.equal((await relay.updateTask(aReport())).state?.result, Result.UNSPECIFIED);
    assert.equal(relay.ended.aborted, false);
    facade.result = Result.FAILURE;
    assert.equal((await relay.updateTask(aReport())).state?.result, Result.CANCELLED);
    assert.equal(relay.ended.aborted, true);
    const final = await relay.updateTask(aReport({ result: Result.CANCELLED }));
    assert.equal(final.state?.result, Result.FAILURE);
  });

  it("does not speak of an end when the runner has reported one itself", async () => {
    const { newRelay } = facadeInMemory();
    const relay = newRelay();
    await relay.updateTask(aReport({ result: Result.SUCCESS }));
    assert.equal(relay.ended.aborted, false);
  });

  it("does not take a cancel back when an answer says nothing of it", async () => {
    const { facade, newRelay } = facadeInMemory();
    const relay = newRelay(Result.CANCELLED);
    assert.equal((await relay.updateTask(aReport())).state?.result, Result.CANCELLED);
    assert.equal(facade.states.length, 1);
  });

  it("has one call in flight, beats included", async () => {
    const { clock, facade, newRelay } = facadeInMemory();
    const relay = newRelay();
    facade.hangNext("updateTask");
    const beat = assert.rejects(relay.beat());
    const report = relay.updateTask(aReport());
    await facade.called("updateTask");
    await settle();
    assert.equal(facade.calls.length, 1);
    await clock.step(10_000);
    await Promise.all([beat, report]);
    assert.equal(facade.calls.length, 2);
  });
});

describe("relaying the result", () => {
  it("has always a time of the end", async () => {
    const { clock, facade, newRelay } = facadeInMemory();
    await newRelay().updateTask(aReport({ result: Result.SUCCESS, steps }));
    const stoppedAt = facade.states[0]?.state?.stoppedAt;
    assert.equal(stoppedAt && timestampMs(stoppedAt), clock.now());
  });

  it("holds the steps known before when the report has none", async () => {
    const { facade, newRelay } = facadeInMemory();
    const relay = newRelay();
    await relay.updateTask(aReport({ steps }));
    await relay.updateTask(aReport({ result: Result.FAILURE }));
    assert.equal(facade.states[1]?.state?.steps.length, 2);
  });

  it("is sent once: later reports get the same answer, and beats are over", async () => {
    const { facade, newRelay } = facadeInMemory();
    const relay = newRelay();
    const answer = await relay.updateTask(aReport({ result: Result.SUCCESS }));
    assert.equal(answer.state?.result, Result.SUCCESS);
    assert.equal(await relay.updateTask(aReport({ result: Result.FAILURE })), answer);
    await relay.beat();
    assert.deepEqual(resultsOf(facade.states), [Result.SUCCESS]);
  });

  it("is what Gitea says where that differs", async () => {
    const { facade, newRelay } = facadeInMemory();
    facade.result = Result.CANCELLED;
    const relay = newRelay();
    await relay.updateTask(aReport({ result: Result.SUCCESS }));
    const { final } = relay.progress();
    assert.equal(final.kind === "delivered" && final.result, Result.CANCELLED);
  });

  it("stays seen, and no beat denies it, when the facade did not take it", async () => {
    const { facade, newRelay } = facadeInMemory();
    const relay = newRelay();
    facade.failNext("updateTask", Code.Unavailable);
    await assert.rejects(relay.updateTask(aReport({ result: Result.SUCCESS })), unavailable);
    assert.equal(relay.progress().final.kind, "seen");
    await relay.beat();
    assert.equal(facade.calls.length, 1);
    await relay.updateTask(aReport({ result: Result.SUCCESS }));
    assert.equal(relay.progress().final.kind, "delivered");
  });
});

describe("a relay whose executor is told to end", () => {
  const ran = (...results: readonly Result[]) => results.map((result, id) => ({ id: BigInt(id), result }));
  const cutShort = ran(Result.SUCCESS, Result.FAILURE);

  async function reported(
    result: Result,
    ended: readonly { readonly id: bigint; readonly result: Result }[],
    inGitea: Result = Result.UNSPECIFIED,
  ): Promise<Result | undefined> {
    const { facade, newRelay } = facadeInMemory();
    await newRelay(inGitea, AbortSignal.abort()).updateTask(aReport({ result, steps: [...ended] }));
    return facade.states[0]?.state?.result;
  }

  it("reports a job as failed whose step was cut short, though gitea-runner says that it succeeded", async () => {
    assert.equal(await reported(Result.SUCCESS, cutShort), Result.FAILURE);
    assert.equal(await reported(Result.SUCCESS, ran(Result.SUCCESS, Result.SKIPPED)), Result.FAILURE);
    assert.equal(await reported(Result.SUCCESS, []), Result.FAILURE);
  });

  it("reports no cancel that nobody asked for", async () => {
    assert.equal(await reported(Result.CANCELLED, cutShort), Result.FAILURE);
    assert.equal(await reported(Result.CANCELLED, cutShort, Result.CANCELLED), Result.CANCELLED);
  });

  it("believes that a job has succeeded which had got through all of its steps", async () => {
    assert.equal(await reported(Result.SUCCESS, ran(Result.SUCCESS, Result.SUCCESS)), Result.SUCCESS);
  });

  it("says again what it has said of a result that came before", async () => {
    const { facade, newRelay } = facadeInMemory();
    const stop = new AbortController();
    const relay = newRelay(Result.UNSPECIFIED, stop.signal);
    facade.failNext("updateTask", Code.Unavailable);
    await assert.rejects(relay.updateTask(aReport({ result: Result.SUCCESS, steps: cutShort })), unavailable);
    stop.abort();
    await relay.updateTask(aReport({ result: Result.SUCCESS, steps: cutShort }));
    assert.deepEqual(resultsOf(facade.states), [Result.SUCCESS]);
  });

  it("says so in the last row of the log, which gitea-runner does not count", async () => {
    const { facade, newRelay } = facadeInMemory({ logRows: 3 });
    const relay = newRelay(Result.UNSPECIFIED, AbortSignal.abort());
    assert.equal((await relay.updateLog(someRows(0, ["a"]))).ackIndex, 1n);
    for (let i = 0; i < 2; i++) assert.equal((await relay.updateLog(someRows(1, ["b"], true))).ackIndex, 2n);
    assert.deepEqual(facade.rows, ["a", "b", "The executor was told to end while this job ran."]);
  });
});

describe("a relay that is refused for good", () => {
  it("says so, takes everything and tells the runner to wind up", async () => {
    const { facade, newRelay } = facadeInMemory();
    const relay = newRelay();
    facade.fail("updateTask", Code.Unauthenticated);
    assert.equal(relay.refused.aborted, false);
    const answer = await relay.updateTask(aReport({}, { version: "1.2" }));
    assert.equal(answer.state?.result, Result.CANCELLED);
    assert.deepEqual(answer.sentOutputs, ["version"]);
    assert.equal(relay.refused.aborted, true);
    assert.equal((await relay.updateLog(someRows(3, ["d"]))).ackIndex, 4n);
    await relay.updateTask(aReport({ result: Result.FAILURE }));
    await relay.beat();
    assert.deepEqual(facade.calls, ["updateTask"]);
    assert.notEqual(relay.progress().final.kind, "delivered");
  });
});
