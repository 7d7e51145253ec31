import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { both } from "../../../controller/platform/both.ts";
import { untilAborted } from "../../../controller/platform/signal.ts";

const never = new AbortController().signal;

describe("two things at once", () => {
  it("resolve with what both make, each begun before the other has ended", async () => {
    const [one, two] = [Promise.withResolvers<string>(), Promise.withResolvers<string>()];
    const first = async () => {
      one.resolve("first");
      return await two.promise;
    };
    const second = async () => {
      two.resolve("second");
      return await one.promise;
    };
    assert.deepEqual(await both(first, second, never), ["second", "first"]);
  });

  for (const which of ["first", "second"] as const)
    it(`fail as the ${which} one does, when the other has ended, too`, async () => {
      const failure = new Error("it failed");
      let ended = false;
      const fails = () => Promise.reject(failure);
      const waits = async (signal: AbortSignal) => {
        await untilAborted(signal);
        ended = true;
        throw new Error("told to end");
      };
      const run = which === "first" ? both(fails, waits, never) : both(waits, fails, never);
      await assert.rejects(run, failure);
      assert.ok(ended);
    });

  it("end with the reason of the signal", async () => {
    const stop = new AbortController();
    const waits = async (signal: AbortSignal) => {
      await untilAborted(signal);
      throw signal.reason;
    };
    const running = both(waits, waits, stop.signal);
    const reason = new Error("stopped");
    stop.abort(reason);
    await assert.rejects(running, reason);
  });
});
