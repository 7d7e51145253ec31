import assert from "node:assert/strict";
import { WireType } from "@bufbuild/protobuf/wire";
import { Code } from "@connectrpc/connect";
import { describe, it } from "mocha";
import { defaultTimes } from "../../../controller/bootstrap/times.ts";
import { Result, type UpdateTaskRequest } from "../../../proto/gen/runner/v1/runner_pb.ts";
import { settle } from "../../fakes/fake-clock.ts";
import { facadeInMemory } from "../../support/facade-in-memory.ts";
import { aReport, someRows } from "../../support/runner-reports.ts";
import { settles } from "../../support/settles.ts";

const steps = [{ id: 0n, logIndex: 2n, logLength: 5n }, { id: 1n }];
const unknown = [{ no: 90, wireType: WireType.Varint, data: new Uint8Array([7]) }];
const resultsOf = (states: readonly UpdateTaskRequest[]) => states.map(({ state }) => state?.result);

describe("states on their way", () => {
  it("point at Gitea's rows; the rest is as gitea-runner has it", async () => {
    const { facade, newRelay } = facadeInMemory({ logRows: 3 });
    const report = aReport({ steps }, { version: "1.2" });
    report.$unknown = unknown;
    const answer = await newRelay().updateTask(report);
    assert.deepEqual([answer.state?.result, answer.sentOutputs], [Result.UNSPECIFIED, ["version"]]);
    await facade.called("updateTask");
    await settle();
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

  it("do not wait for log rows that do not get through", async () => {
    const { facade, newRelay } = facadeInMemory();
    const relay = newRelay();
    facade.fail("updateLog", Code.Unavailable);
    await relay.updateLog(someRows(0, ["a"]));
    await facade.called("updateLog");
    for (const reports of [1, 2]) {
      await relay.updateTask(aReport());
      await settles("the state is told", () => facade.states.length === reports);
    }
  });

  it("are said once, the latest only, when the facade is back; no output is forgotten", async () => {
    const { clock, facade, newRelay } = facadeInMemory();
    const relay = newRelay();
    facade.fail("updateTask", Code.Unavailable);
    for (let i = 0; i < 60; i++) {
      const before = clock.now();
      const answer = await relay.updateTask(
        aReport({ steps: [{ id: 0n, logLength: BigInt(i) }] }, { [`o${i}`]: "x" }),
      );
      assert.deepEqual(answer.sentOutputs, [`o${i}`]);
      assert.equal(clock.now(), before);
      await clock.step(5_000);
    }
    facade.recover("updateTask");
    await clock.step(defaultTimes.retryEvery);
    assert.equal(facade.states.length, 1);
    assert.equal(facade.states[0]?.state?.steps[0]?.logLength, 59n);
    assert.equal(Object.keys(facade.states[0].outputs).length, 60);
  });

  it("are not forgotten when they come while a call is under way that goes well", async () => {
    const { facade, newRelay } = facadeInMemory();
    const relay = newRelay();
    const first = relay.updateTask(aReport({}, { a: "1" }));
    await facade.called("updateTask");
    assert.equal(facade.states.length, 0);
    await Promise.all([first, relay.updateTask(aReport({ steps }, { b: "2" }))]);
    const last = facade.states.at(-1);
    assert.deepEqual([last?.state?.steps.length, last?.outputs], [2, { b: "2" }]);
  });

  it("go into one call at a time", async () => {
    const { clock, facade, newRelay } = facadeInMemory();
    const relay = newRelay();
    facade.hangNext("updateTask");
    const first = relay.updateTask(aReport());
    await facade.called("updateTask");
    const second = relay.updateTask(aReport({ steps }));
    await clock.step(defaultTimes.answer);
    await Promise.all([first, second]);
    assert.equal(facade.calls.length, 1);
    await clock.step(defaultTimes.call + defaultTimes.retryEvery);
    assert.equal(facade.calls.length, 2);
    assert.equal(facade.states[0]?.state?.steps.length, 2);
  });
});

describe("beats", () => {
  it("say every 10 s that a silent job lives, with the last full state", async () => {
    const { clock, facade, newRelay } = facadeInMemory();
    const relay = newRelay();
    await relay.updateTask(aReport({ steps }));
    await settles("the state is told", () => facade.states.length === 1);
    for (const beats of [2, 3, 4]) {
      await clock.step(9_999);
      assert.equal(facade.calls.length, beats - 1);
      await clock.step(1);
      assert.equal(facade.states.length, beats);
    }
    for (const { state } of facade.states) assert.equal(state?.steps.length, 2);
  });

  it("are not needed while gitea-runner reports", async () => {
    const { clock, facade, newRelay } = facadeInMemory();
    const relay = newRelay();
    for (let i = 0; i < 4; i++) {
      await clock.step(5_000);
      await relay.updateTask(aReport());
      await settle();
    }
    assert.equal(facade.calls.length, 4);
    await clock.step(10_000);
    assert.equal(facade.calls.length, 5);
  });

  it("are tried again after a second", async () => {
    const { clock, facade, newRelay } = facadeInMemory();
    newRelay();
    facade.failNext("updateTask", Code.Unavailable);
    await clock.step(10_000);
    assert.equal(facade.states.length, 0);
    await clock.step(1_000);
    assert.equal(facade.states.length, 1);
  });

  it("end with the job's result", async () => {
    const { clock, facade, newRelay } = facadeInMemory();
    await newRelay().updateTask(aReport({ result: Result.SUCCESS }));
    await clock.step(60_000);
    assert.deepEqual(resultsOf(facade.states), [Result.SUCCESS]);
  });

  it("go on while the result waits for the log", async () => {
    const { clock, facade, newRelay } = facadeInMemory();
    const relay = newRelay();
    facade.fail("updateLog", Code.Unavailable);
    await relay.updateLog(someRows(0, ["a"], true));
    await relay.updateTask(aReport({ result: Result.SUCCESS }));
    await clock.step(119_999);
    assert.deepEqual(resultsOf(facade.states), Array<Result>(11).fill(Result.UNSPECIFIED));
    await clock.step(1);
    assert.equal(facade.states.at(-1)?.state?.result, Result.SUCCESS);
  });
});

describe("a job that Gitea has ended", () => {
  it("is told to gitea-runner at its next report, whoever has heard of it first", async () => {
    const { clock, facade, newRelay } = facadeInMemory();
    const relay = newRelay();
    facade.result = Result.FAILURE;
    await clock.step(10_000);
    assert.equal(relay.ended.aborted, true);
    facade.fail("updateTask", Code.Unavailable);
    const answer = await relay.updateTask(aReport({ steps }, { version: "1.2" }));
    assert.deepEqual([answer.state?.result, answer.sentOutputs], [Result.CANCELLED, ["version"]]);
  });

  it("is told to gitea-runner in the answer to the report by which the facade hears of it", async () => {
    const { facade, newRelay } = facadeInMemory();
    const relay = newRelay();
    assert.equal((await relay.updateTask(aReport())).state?.result, Result.UNSPECIFIED);
    facade.result = Result.CANCELLED;
    assert.equal((await relay.updateTask(aReport())).state?.result, Result.CANCELLED);
    assert.equal(relay.ended.aborted, true);
  });

  it("is not waited for: a facade that takes long is heard of at the next report", async () => {
    const { clock, facade, newRelay } = facadeInMemory();
    const relay = newRelay();
    facade.hangNext("updateTask");
    let result: Result | undefined;
    const report = relay.updateTask(aReport()).then((answer) => (result = answer.state?.result));
    await clock.step(defaultTimes.answer - 1);
    assert.equal(result, undefined);
    await clock.step(1);
    assert.equal(await report, Result.UNSPECIFIED);
  });

  it("is over in Gitea's way, whatever gitea-runner says", async () => {
    const { facade, newRelay } = facadeInMemory();
    const relay = newRelay();
    facade.result = Result.CANCELLED;
    const answer = await relay.updateTask(aReport({ result: Result.SUCCESS }));
    assert.equal(answer.state?.result, Result.SUCCESS);
    await settles("the result is taken", () => relay.result() !== undefined);
    assert.equal(relay.result(), Result.CANCELLED);
    assert.equal(relay.ended.aborted, false);
  });
});

describe("a result on its way", () => {
  it("is taken at once while the facade is away for minutes", async () => {
    const { clock, facade, newRelay } = facadeInMemory();
    const relay = newRelay();
    for (const rpc of ["updateTask", "updateLog"] as const) facade.fail(rpc, Code.Unavailable);
    await relay.updateLog(someRows(0, ["a"], true));
    const answer = await relay.updateTask(aReport({ result: Result.SUCCESS, steps }));
    assert.equal(answer.state?.result, Result.SUCCESS);
    await clock.step(300_000);
    for (const rpc of ["updateTask", "updateLog"] as const) facade.recover(rpc);
    await clock.step(2 * defaultTimes.retryEvery);
    await settles("the result is taken", () => relay.result() === Result.SUCCESS);
    assert.deepEqual(resultsOf(facade.states), [Result.SUCCESS]);
    await settles("the row is stored", () => facade.rows.length === 1);
  });

  it("comes behind the log", async () => {
    const { facade, newRelay } = facadeInMemory();
    const relay = newRelay();
    const rows = Array.from({ length: 20 }, () => "x".repeat(1024 * 1024));
    await relay.updateLog(someRows(0, rows, true));
    await relay.updateTask(aReport({ result: Result.SUCCESS }));
    await relay.sending;
    assert.deepEqual(facade.calls, ["updateLog", "updateLog", "updateLog", "updateTask"]);
  });

  it("goes after two minutes without the log, which still follows", async () => {
    const { clock, facade, newRelay } = facadeInMemory();
    const relay = newRelay();
    facade.fail("updateLog", Code.Unavailable);
    await relay.updateLog(someRows(0, ["a"], true));
    await relay.updateTask(aReport({ result: Result.SUCCESS }));
    await clock.step(defaultTimes.logs);
    assert.equal(relay.result(), Result.SUCCESS);
    assert.equal(relay.waitingRows(), 1);
    facade.recover("updateLog");
    await clock.step(defaultTimes.retryEvery);
    await relay.sending;
    assert.deepEqual(facade.rows, ["a"]);
  });

  it("is sent again until it is taken, and not any more then", async () => {
    const { clock, facade, newRelay } = facadeInMemory();
    const relay = newRelay();
    facade.failNext("updateTask", Code.Unavailable, 3);
    await relay.updateTask(aReport({ result: Result.SUCCESS }));
    await clock.step(3 * defaultTimes.retryEvery);
    assert.deepEqual(resultsOf(facade.states), [Result.SUCCESS]);
    assert.equal((await relay.updateTask(aReport({ result: Result.FAILURE }))).state?.result, Result.SUCCESS);
    await clock.step(60_000);
    assert.equal(facade.calls.length, 4);
  });

  it("says which outputs Gitea has not taken, by their number", async () => {
    const { facade, log, newRelay } = facadeInMemory();
    facade.refusedOutputs.add("long");
    await newRelay().updateTask(aReport({ result: Result.SUCCESS }, { long: "secret", short: "x" }));
    const { fields } = await log.line("outputs not taken by Gitea");
    assert.deepEqual(fields, { outputs: 1 });
  });
});

describe("the result of an executor that is told to end", () => {
  const ran = (...results: readonly Result[]) => results.map((result, id) => ({ id: BigInt(id), result }));
  const cutShort = ran(Result.SUCCESS, Result.FAILURE);

  /** What the facade is told of it, if anything. */
  async function told(
    result: Result,
    ended: readonly { readonly id: bigint; readonly result: Result }[],
    inGitea: Result = Result.UNSPECIFIED,
  ): Promise<readonly (Result | undefined)[]> {
    const { facade, newRelay } = facadeInMemory();
    const relay = newRelay({ ended: inGitea, stop: AbortSignal.abort() });
    await relay.updateTask(aReport({ result, steps: [...ended] }));
    relay.close(ended.length, "");
    await relay.sending;
    return resultsOf(facade.states);
  }
  const nothing = [Result.UNSPECIFIED];

  it("is left to the controller if a step was cut short, though gitea-runner says that the job succeeded", async () => {
    assert.deepEqual(await told(Result.SUCCESS, cutShort), nothing);
    assert.deepEqual(await told(Result.SUCCESS, ran(Result.SUCCESS, Result.SKIPPED)), nothing);
    assert.deepEqual(await told(Result.SUCCESS, []), nothing);
  });

  it("is left to the controller as well if gitea-runner ends without a word", async () => {
    assert.deepEqual(await told(Result.UNSPECIFIED, cutShort), nothing);
  });

  it("is no cancel that nobody asked for", async () => {
    assert.deepEqual(await told(Result.CANCELLED, cutShort), nothing);
    assert.deepEqual(await told(Result.CANCELLED, cutShort, Result.CANCELLED), [Result.CANCELLED]);
  });

  it("is a success if the job had got through all of its steps", async () => {
    const all = ran(Result.SUCCESS, Result.SUCCESS);
    assert.deepEqual(await told(Result.SUCCESS, all), [Result.SUCCESS]);
  });

  it("stays what it was if it came before", async () => {
    const { clock, facade, newRelay } = facadeInMemory();
    const stop = new AbortController();
    const relay = newRelay({ stop: stop.signal });
    facade.failNext("updateTask", Code.Unavailable);
    await relay.updateTask(aReport({ result: Result.SUCCESS, steps: cutShort }));
    stop.abort();
    await relay.updateTask(aReport({ result: Result.SUCCESS, steps: cutShort }));
    await clock.step(defaultTimes.retryEvery);
    assert.deepEqual(resultsOf(facade.states), [Result.SUCCESS]);
  });
});
