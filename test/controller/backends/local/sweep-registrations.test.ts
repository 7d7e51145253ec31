import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { sweepRegistrations } from "../../../../controller/backends/local/sweep-registrations.ts";
import { createFakeClock } from "../../../fakes/fake-clock.ts";
import { createRecordingLogger } from "../../../fakes/recording-logger.ts";

describe("sweeping registrations", () => {
  it("happens at once and every minute, tells what it removed, and survives a server that is away", async () => {
    const clock = createFakeClock();
    const log = createRecordingLogger();
    const stop = new AbortController();
    const turns: (() => Promise<readonly string[]>)[] = [
      () => Promise.resolve(["gitea-task-1-1-0123abcd"]),
      () => Promise.reject(new Error("connection refused")),
      () => Promise.resolve([]),
    ];
    const registration = { sweep: () => turns.shift()?.() ?? Promise.resolve([]) };
    const executors = () => Promise.resolve([]);
    const running = sweepRegistrations({ registration, executors, clock, log }, stop.signal);
    await clock.waiting(1);
    assert.equal(turns.length, 2);
    await clock.step(60_000);
    await clock.waiting(1);
    await clock.step(60_000);
    await clock.waiting(1);
    assert.equal(turns.length, 0);
    stop.abort(new Error("the controller ends"));
    await running;
    assert.deepEqual(
      log.lines.map(({ level, fields, message }) => [level, fields, message]),
      [
        ["warn", { executor: "gitea-task-1-1-0123abcd" }, "registration without executor removed"],
        ["warn", { error: "connection refused" }, "sweeping registrations failed"],
      ],
    );
  });
});
