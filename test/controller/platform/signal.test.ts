import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { withDeadline } from "../../../controller/platform/signal.ts";
import { createFakeClock, settle } from "../../fakes/fake-clock.ts";

const never = new AbortController().signal;
const hangs = () => new Promise<void>(() => undefined);

describe("a call with a deadline", () => {
  it("settles as the call does, and waits for nothing then", async () => {
    const clock = createFakeClock();
    assert.equal(await withDeadline(clock, 1_000, async () => 7, never), 7);
    const failure = new Error("it failed");
    const rejects = () => Promise.reject(failure);
    await assert.rejects(withDeadline(clock, 1_000, rejects, never), failure);
    const throws = () => {
      throw failure;
    };
    await assert.rejects(withDeadline(clock, 1_000, throws, never), failure);
    assert.deepEqual(clock.pending(), []);
  });

  it("rejects when the time is over, also if the call does not care", async () => {
    const clock = createFakeClock();
    let rejected = false;
    const late = withDeadline(clock, 1_000, hangs, never).finally(() => (rejected = true));
    late.catch(() => undefined);
    await clock.step(999);
    assert.equal(rejected, false);
    await clock.step(1);
    await assert.rejects(late, { name: "TimeoutError" });
  });

  it("tells the call that its time is over", async () => {
    const clock = createFakeClock();
    let told: unknown;
    const call = (signal: AbortSignal) => {
      signal.addEventListener("abort", () => (told = signal.reason));
      return hangs();
    };
    const late = assert.rejects(withDeadline(clock, 1_000, call, never));
    await clock.step(1_000);
    await late;
    assert.ok(told instanceof DOMException);
  });

  it("forgets a call that fails after its time", async () => {
    const clock = createFakeClock();
    const unhandled: unknown[] = [];
    const hear = (reason: unknown) => void unhandled.push(reason);
    process.on("unhandledRejection", hear);
    try {
      const call = Promise.withResolvers<void>();
      const late = assert.rejects(withDeadline(clock, 1_000, () => call.promise, never));
      await clock.step(1_000);
      await late;
      call.reject(new Error("too late"));
      await settle();
      assert.deepEqual(unhandled, []);
    } finally {
      process.off("unhandledRejection", hear);
    }
  });

  it("rejects with the signal's reason, and calls nothing when that is aborted already", async () => {
    const clock = createFakeClock();
    const stop = new AbortController();
    const running = withDeadline(clock, 60_000, hangs, stop.signal);
    const reason = new Error("shutting down");
    stop.abort(reason);
    await assert.rejects(running, reason);
    assert.deepEqual(clock.pending(), []);
    let called = false;
    const late = withDeadline(clock, 60_000, async () => (called = true), stop.signal);
    await assert.rejects(late, reason);
    assert.equal(called, false);
  });
});
