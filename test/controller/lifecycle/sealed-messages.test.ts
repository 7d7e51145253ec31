import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { defaultTimes as times } from "../../../controller/assignment/times.ts";
import { createSealedMessages } from "../../../controller/lifecycle/sealed-messages.ts";
import { createFakeClock } from "../../fakes/fake-clock.ts";
import { createFakeStream } from "../../fakes/fake-stream.ts";
import { createRecordingLogger } from "../../fakes/recording-logger.ts";

describe("messages that need another key", () => {
  it("are told of again and again as long as they are there, though no worker sees them", async () => {
    const clock = createFakeClock();
    const stream = createFakeStream();
    const log = createRecordingLogger();
    const told: string[] = [];
    const sealed = createSealedMessages({
      queue: stream,
      onSealed: (id) => void told.push(id),
      times,
      clock,
      log,
    });
    const ids = ["gitea-task-1", "gitea-task-2"];
    for (const assignmentId of ids)
      sealed.found({ sequence: stream.put({ kind: "unknown-key", assignmentId }), assignmentId });
    assert.deepEqual(told.splice(0), ids);
    const stop = new AbortController();
    const running = sealed.run(stop.signal);
    await clock.step(times.compareStreamMs);
    assert.deepEqual(told.splice(0), ids);
    stream.drop(1);
    stream.failNext("has", new Error("NATS is away"));
    await clock.step(times.compareStreamMs);
    assert.deepEqual(told.splice(0), []);
    assert.equal(log.lines.at(-1)?.fields["error"], "NATS is away");
    await clock.step(2 * times.compareStreamMs);
    assert.deepEqual(told, ["gitea-task-2", "gitea-task-2"]);
    stop.abort();
    await running;
  });
});
