import assert from "node:assert/strict";
import { Code } from "@connectrpc/connect";
import { describe, it } from "mocha";
import { keepBeating } from "../../../controller/bootstrap/beat.ts";
import { defaultTimes } from "../../../controller/bootstrap/times.ts";
import { Result } from "../../../proto/gen/runner/v1/runner_pb.ts";
import { facadeInMemory } from "../../support/facade-in-memory.ts";
import { aReport } from "../../support/runner-reports.ts";

describe("beating", () => {
  const begin = () => {
    const parts = facadeInMemory();
    const stop = new AbortController();
    const relay = parts.newRelay();
    const over = keepBeating({ ...parts, relay, times: defaultTimes }, stop.signal);
    return { ...parts, relay, stop, over };
  };

  it("says every 10 s that a silent job lives", async () => {
    const { clock, facade, stop, over } = begin();
    await clock.step(9_999);
    assert.equal(facade.calls.length, 0);
    for (const beats of [1, 2, 3]) {
      await clock.step(1);
      await facade.called("updateTask", beats);
      assert.equal(facade.calls.length, beats);
      await clock.step(9_999);
    }
    stop.abort();
    await over;
  });

  it("is silent while the runner reports", async () => {
    const { clock, facade, relay, stop, over } = begin();
    for (let i = 0; i < 4; i++) {
      await clock.step(5_000);
      await relay.updateTask(aReport());
    }
    assert.equal(facade.calls.length, 4);
    await clock.step(10_000);
    assert.equal(facade.calls.length, 5);
    stop.abort();
    await over;
  });

  it("tries again after a second when a beat is not answered", async () => {
    const { clock, facade, log, stop, over } = begin();
    facade.failNext("updateTask", Code.Unavailable);
    await clock.step(10_000);
    await log.line("beat not answered");
    await clock.step(1_000);
    assert.equal(facade.calls.length, 2);
    stop.abort();
    await over;
  });

  it("ends with the job's result", async () => {
    const { clock, facade, relay, over } = begin();
    await relay.updateTask(aReport({ result: Result.SUCCESS }));
    await clock.step(60_000);
    await over;
    assert.equal(facade.calls.length, 1);
  });

  it("ends when the facade refuses it for good", async () => {
    const { clock, facade, relay, over } = begin();
    facade.fail("updateTask", Code.Unauthenticated);
    await clock.step(60_000);
    await over;
    assert.equal(facade.calls.length, 1);
    assert.equal(relay.refused.aborted, true);
  });
});
