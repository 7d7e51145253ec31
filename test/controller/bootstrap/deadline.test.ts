import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { DeadlineError, withDeadline } from "../../../controller/bootstrap/deadline.ts";
import { abortable } from "../../../controller/platform/signal.ts";
import { createFakeClock } from "../../fakes/fake-clock.ts";

const unending = (signal: AbortSignal) => abortable(new Promise<never>(() => {}), signal);

describe("a deadline", () => {
  it("ends what takes longer", async () => {
    const clock = createFakeClock();
    const result = withDeadline(clock, 2_000, unending, new AbortController().signal);
    const refused = assert.rejects(result, DeadlineError);
    await clock.step(1_999);
    assert.deepEqual(clock.pending(), [1]);
    await clock.step(1);
    await refused;
  });

  it("leaves no timer behind what was in time", async () => {
    const clock = createFakeClock();
    assert.equal(await withDeadline(clock, 2_000, () => Promise.resolve(7), new AbortController().signal), 7);
    assert.deepEqual(clock.pending(), []);
  });

  it("passes the error of what ran", async () => {
    const error = new Error("broken");
    const run = () => Promise.reject(error);
    await assert.rejects(withDeadline(createFakeClock(), 1, run, new AbortController().signal), error);
  });

  it("gives the reason of an abort that came first", async () => {
    const stop = new AbortController();
    const result = withDeadline(createFakeClock(), 2_000, unending, stop.signal);
    const reason = new Error("stopped");
    stop.abort(reason);
    await assert.rejects(result, reason);
  });
});
