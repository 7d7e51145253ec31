import assert from "node:assert/strict";
import { toBinary } from "@bufbuild/protobuf";
import { WireType } from "@bufbuild/protobuf/wire";
import { Code } from "@connectrpc/connect";
import { describe, it } from "mocha";
import { claimTask } from "../../../controller/bootstrap/claim.ts";
import { fetchTask } from "../../../controller/bootstrap/fetch-task.ts";
import { defaultTimes } from "../../../controller/bootstrap/times.ts";
import { RefusedError } from "../../../controller/bootstrap/until-answered.ts";
import { Result, TaskSchema } from "../../../proto/gen/runner/v1/runner_pb.ts";
import { aTask } from "../../support/a-task.ts";
import { facadeInMemory } from "../../support/facade-in-memory.ts";

const never = new AbortController().signal;

describe("fetching the task", () => {
  it("repeats while the facade does not have it, and keeps fields that it does not know", async () => {
    const { calls, clock, facade, log } = facadeInMemory();
    const task = aTask();
    task.$unknown = [{ no: 90, wireType: WireType.LengthDelimited, data: new Uint8Array([3, 1, 2, 3]) }];
    facade.failNext("fetchTask", Code.Unavailable);
    const fetching = fetchTask(calls, 42n, defaultTimes, never);
    await log.line("facade does not answer yet");
    await clock.step(1_000);
    assert.equal(facade.calls.length, 2);
    facade.task = task;
    await clock.step(1_000);
    const fetched = await fetching;
    assert.deepEqual(toBinary(TaskSchema, fetched), toBinary(TaskSchema, task));
    assert.deepEqual(fetched.$unknown, task.$unknown);
  });

  it("does not take another task", async () => {
    const { calls, facade, log } = facadeInMemory({ task: aTask({ id: 43n }) });
    const stop = new AbortController();
    const fetching = fetchTask(calls, 42n, defaultTimes, stop.signal);
    const line = await log.line("facade does not answer yet");
    assert.equal(line.fields["error"], "the facade offers task 43");
    assert.equal(facade.calls.length, 1);
    stop.abort(new Error("enough"));
    await assert.rejects(fetching, /enough/);
  });
});

describe("the claim", () => {
  it("is an UpdateTask without result, and its answer tells the rows before ours", async () => {
    const { calls, facade } = facadeInMemory({ logRows: 3 });
    assert.deepEqual(await claimTask(calls, 42n, defaultTimes, never), {
      logRows: 3n,
      result: Result.UNSPECIFIED,
    });
    assert.deepEqual(
      facade.states.map(({ state }) => [state?.id, state?.result, state?.steps.length]),
      [[42n, Result.UNSPECIFIED, 0]],
    );
  });

  it("is repeated until it is answered", async () => {
    const { calls, clock, facade, redials } = facadeInMemory({ logRows: 3 });
    facade.loseNextAnswer("updateTask");
    const claiming = claimTask(calls, 42n, defaultTimes, never);
    await facade.called("updateTask");
    await clock.step(10_000);
    assert.equal(redials(), 1);
    await clock.step(1_000);
    assert.equal((await claiming).logRows, 3n);
    assert.equal(facade.states.length, 2);
  });

  it("says how a task has ended already", async () => {
    const { calls, facade } = facadeInMemory();
    facade.result = Result.CANCELLED;
    assert.equal((await claimTask(calls, 42n, defaultTimes, never)).result, Result.CANCELLED);
  });

  it("is over when the facade refuses it", async () => {
    const { calls, facade } = facadeInMemory();
    facade.fail("updateTask", Code.Unauthenticated);
    await assert.rejects(claimTask(calls, 42n, defaultTimes, never), RefusedError);
    assert.equal(facade.calls.length, 1);
  });

  for (const text of ["", "-1", "1.5", "three", "01"])
    it(`is not answered by ${JSON.stringify(text)} rows`, async () => {
      const { calls, clock, facade, log } = facadeInMemory();
      facade.logRowsHeader = text;
      const claiming = claimTask(calls, 42n, defaultTimes, never);
      await log.line("facade does not answer yet");
      facade.logRowsHeader = "5";
      await clock.step(1_000);
      assert.equal((await claiming).logRows, 5n);
    });
});
