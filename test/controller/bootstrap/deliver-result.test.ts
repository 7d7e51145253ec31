import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { deliverResult } from "../../../controller/bootstrap/deliver-result.ts";
import { defaultTimes } from "../../../controller/bootstrap/times.ts";
import { Result } from "../../../proto/gen/runner/v1/runner_pb.ts";
import { settle } from "../../fakes/fake-clock.ts";
import { facadeInMemory } from "../../support/facade-in-memory.ts";
import { someRows } from "../../support/runner-reports.ts";

describe("the row that explains a missing result", () => {
  const reason = "gitea-runner was killed by SIGKILL without reporting a result.";

  it("comes after the rows that were on their way when gitea-runner died, whatever became of their answer", async () => {
    const { clock, facade, log, newRelay } = facadeInMemory({ logRows: 3 });
    const relay = newRelay();
    facade.loseNextAnswer("updateLog");
    const onTheirWay = assert.rejects(relay.updateLog(someRows(0, ["a", "b"])));
    await facade.called("updateLog");
    const delivered = deliverResult({ relay, clock, log, times: defaultTimes, steps: 1, reason });
    await settle();
    await clock.step(defaultTimes.call);
    await onTheirWay;
    assert.equal(await delivered, Result.FAILURE);
    assert.deepEqual(facade.rows, ["a", "b", reason]);
    assert.equal(facade.logs.at(-1)?.noMore, true);
  });

  it("stands there once, also when the answer to it gets lost", async () => {
    const { clock, facade, log, newRelay } = facadeInMemory({ logRows: 3 });
    const relay = newRelay();
    await relay.updateLog(someRows(0, ["a"]));
    const delivered = deliverResult({ relay, clock, log, times: defaultTimes, steps: 1, reason });
    await facade.called("updateLog", 3);
    facade.loseNextAnswer("updateLog");
    await settle();
    await clock.step(defaultTimes.call);
    await clock.step(defaultTimes.retryEvery);
    assert.equal(await delivered, Result.FAILURE);
    assert.deepEqual(facade.rows, ["a", reason]);
  });
});
