import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { withDeadline } from "../../../controller/platform/signal.ts";

const never = new AbortController().signal;
const hangs = () => new Promise<void>(() => undefined);

describe("a call with a deadline", () => {
  it("settles as the call does", async () => {
    assert.equal(await withDeadline(async () => 7, 1_000, never), 7);
    const failure = new Error("it failed");
    await assert.rejects(
      withDeadline(() => Promise.reject(failure), 1_000, never),
      failure,
    );
    await assert.rejects(
      withDeadline(
        () => {
          throw failure;
        },
        1_000,
        never,
      ),
      failure,
    );
  });

  it("rejects when the time is over, also if the call does not care", async () => {
    await assert.rejects(withDeadline(hangs, 1, never), { name: "TimeoutError" });
  });

  it("tells the call that its time is over", async () => {
    let told: unknown;
    await assert.rejects(
      withDeadline(
        (signal) => {
          signal.addEventListener("abort", () => (told = signal.reason));
          return hangs();
        },
        1,
        never,
      ),
    );
    assert.ok(told instanceof DOMException);
  });

  it("rejects with the signal's reason, and calls nothing when that is aborted already", async () => {
    const stop = new AbortController();
    const running = withDeadline(hangs, 60_000, stop.signal);
    const reason = new Error("shutting down");
    stop.abort(reason);
    await assert.rejects(running, reason);
    let called = false;
    const late = withDeadline(async () => (called = true), 60_000, stop.signal);
    await assert.rejects(late, reason);
    assert.equal(called, false);
  });
});
