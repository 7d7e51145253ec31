import assert from "node:assert/strict";
import { Code } from "@connectrpc/connect";
import { describe, it } from "mocha";
import { deliverResult } from "../../../controller/bootstrap/deliver-result.ts";
import { DeadlineError } from "../../../controller/bootstrap/deadline.ts";
import { defaultLogLimits } from "../../../controller/bootstrap/log-limits.ts";
import { defaultTimes } from "../../../controller/bootstrap/times.ts";
import { RefusedError } from "../../../controller/bootstrap/until-answered.ts";
import { Result } from "../../../proto/gen/runner/v1/runner_pb.ts";
import { settle } from "../../fakes/fake-clock.ts";
import { facadeInMemory } from "../../support/facade-in-memory.ts";
import { aReport, someRows } from "../../support/runner-reports.ts";

const reason = "gitea-runner was killed by SIGKILL without reporting a result.";

describe("a relay whose gitea-runner has ended without a result", () => {
  it("tells why in a row behind those that were on their way, whatever became of their answer", async () => {
    const { clock, facade, newRelay } = facadeInMemory({ logRows: 3 });
    const relay = newRelay();
    facade.loseNextAnswer("updateLog");
    await relay.updateLog(someRows(0, ["a", "b"]));
    await facade.called("updateLog");
    relay.close(1, reason);
    await clock.step(defaultTimes.call);
    await clock.step(defaultTimes.retryEvery);
    await relay.sending;
    assert.equal(relay.result(), Result.FAILURE);
    assert.deepEqual(facade.rows, ["a", "b", reason]);
    assert.equal(facade.logs.at(-1)?.noMore, true);
    assert.equal(facade.calls.at(-1), "updateTask");
  });

  it("tells why once, also when the answer to that gets lost", async () => {
    const { clock, facade, newRelay } = facadeInMemory({ logRows: 3 });
    const relay = newRelay();
    facade.loseNextAnswer("updateLog");
    relay.close(1, reason);
    await facade.called("updateLog");
    await clock.step(defaultTimes.call);
    await clock.step(defaultTimes.retryEvery);
    await relay.sending;
    assert.deepEqual(facade.rows, [reason]);
  });

  it("tells why also when gitea-runner had given its last rows", async () => {
    const { facade, newRelay } = facadeInMemory();
    const relay = newRelay();
    await relay.updateLog(someRows(0, ["a"], true));
    relay.close(1, reason);
    await relay.sending;
    assert.deepEqual(facade.rows, ["a", reason]);
  });
});

describe("a relay whose gitea-runner has reported a result", () => {
  it("closes a log that gitea-runner did not, without a row", async () => {
    const { facade, newRelay } = facadeInMemory();
    const relay = newRelay();
    await relay.updateLog(someRows(0, ["a"]));
    await relay.updateTask(aReport({ result: Result.SUCCESS }));
    relay.close(1, reason);
    await relay.sending;
    assert.equal(relay.result(), Result.SUCCESS);
    assert.deepEqual(facade.rows, ["a"]);
    assert.equal(facade.logs.at(-1)?.noMore, true);
  });
});

describe("a relay that is refused for good", () => {
  it("says so, takes everything, tells the runner to wind up, and sends nothing any more", async () => {
    const { clock, facade, newRelay } = facadeInMemory();
    const relay = newRelay({ limits: { ...defaultLogLimits, spool: 1_000, piece: 300 } });
    facade.fail("updateTask", Code.Unauthenticated);
    assert.equal(relay.refused.aborted, false);
    await relay.updateTask(aReport());
    await relay.sending;
    assert.equal(relay.refused.aborted, true);
    const answer = await relay.updateTask(aReport({ result: Result.SUCCESS }, { version: "1.2" }));
    assert.deepEqual([answer.state?.result, answer.sentOutputs], [Result.CANCELLED, ["version"]]);
    assert.equal((await relay.updateLog(someRows(0, Array<string>(30).fill("row")))).ackIndex, 30n);
    await clock.step(60_000);
    assert.deepEqual(facade.calls, ["updateTask"]);
    assert.equal(relay.result(), undefined);
  });
});

describe("waiting for the delivery", () => {
  const ready = () => {
    const parts = facadeInMemory();
    const relay = parts.newRelay();
    return {
      ...parts,
      relay,
      deliver: () => deliverResult({ ...parts, relay, times: defaultTimes }, relay.sending),
    };
  };

  it("ends with the result when all is delivered", async () => {
    const { relay, deliver } = ready();
    await relay.updateLog(someRows(0, ["a"], true));
    await relay.updateTask(aReport({ result: Result.SUCCESS }));
    assert.equal(await deliver(), Result.SUCCESS);
    assert.equal(relay.waitingRows(), 0);
  });

  it("ends with the result at its deadline, and says how many rows were left behind", async () => {
    const { clock, facade, log, relay, deliver } = ready();
    facade.fail("updateLog", Code.Unavailable);
    await relay.updateLog(someRows(0, ["a", "b"], true));
    await relay.updateTask(aReport({ result: Result.SUCCESS }));
    const delivered = deliver();
    await clock.step(defaultTimes.deliver);
    assert.equal(await delivered, Result.SUCCESS);
    assert.deepEqual((await log.line("log rows left behind")).fields, { rows: 2 });
  });

  it("gives up at its deadline when no result was taken", async () => {
    const { clock, facade, relay, deliver } = ready();
    facade.fail("updateTask", Code.Unavailable);
    relay.close(1, reason);
    const delivered = assert.rejects(deliver(), DeadlineError);
    await clock.step(defaultTimes.deliver);
    await delivered;
    await settle();
  });

  it("ends with the facade's refusal, but not if it has taken the result before", async () => {
    const one = ready();
    one.facade.fail("updateTask", Code.Unauthenticated);
    one.relay.close(1, reason);
    await assert.rejects(one.deliver(), RefusedError);

    const two = ready();
    two.facade.fail("updateLog", Code.Unavailable);
    await two.relay.updateLog(someRows(0, ["a"], true));
    await two.relay.updateTask(aReport({ result: Result.SUCCESS }));
    await two.clock.step(defaultTimes.logs);
    two.facade.fail("updateLog", Code.Unauthenticated);
    const delivered = two.deliver();
    await two.clock.step(defaultTimes.retryEvery);
    assert.equal(await delivered, Result.SUCCESS);
  });
});
