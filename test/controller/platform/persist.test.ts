import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { persist } from "../../../controller/platform/persist.ts";
import { createFakeClock } from "../../fakes/fake-clock.ts";
import { createRecordingLogger } from "../../fakes/recording-logger.ts";

class Outage extends Error {}

function setUp() {
  const clock = createFakeClock();
  const log = createRecordingLogger();
  const passing = (error: unknown) => error instanceof Outage;
  return { clock, options: { doing: "recovering", passing, clock, random: () => 0, log }, log };
}

describe("persisting", () => {
  it("tries again after 1 s, doubling to 10 s, and says each time what failed", async () => {
    const { clock, options, log } = setUp();
    const times: number[] = [];
    const start = clock.now();
    const done = persist(
      async () => {
        times.push((clock.now() - start) / 1000);
        if (times.length < 7) throw new Outage("no nats");
        return Promise.resolve("done");
      },
      options,
      new AbortController().signal,
    );
    await clock.step(60_000);
    assert.equal(await done, "done");
    assert.deepEqual(times, [0, 1, 3, 7, 15, 25, 35]);
    assert.equal(log.lines.filter(({ message }) => message === "recovering failed, trying again").length, 6);
  });

  it("gives up at once on what does not pass, and when it is stopped", async () => {
    const { clock, options } = setUp();
    const fault = new Error("a fault of ours");
    const never = new AbortController().signal;
    await assert.rejects(
      persist(() => Promise.reject(fault), options, never),
      fault,
    );
    const stop = new AbortController();
    const waiting = persist(() => Promise.reject(new Outage()), options, stop.signal);
    await clock.waiting();
    stop.abort(new Error("SIGTERM"));
    await assert.rejects(waiting, { message: "SIGTERM" });
  });
});
