import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { createWakeup, listenForAny } from "../../../controller/platform/wakeup.ts";
import { settle } from "../../fakes/fake-clock.ts";

const never = (signal: AbortSignal) => createWakeup().next(signal);

describe("a wake-up", () => {
  it("that comes between listening and waiting is not missed", async () => {
    const wakeup = createWakeup();
    using woken = listenForAny([(signal) => wakeup.next(signal), never], new AbortController().signal);
    wakeup.wake();
    await settle();
    await woken.first();
  });

  it("is given up with the signal's reason, also when nobody waits yet", async () => {
    const unhandled: unknown[] = [];
    const hear = (reason: unknown) => unhandled.push(reason);
    process.on("unhandledRejection", hear);
    try {
      const stop = new AbortController();
      using woken = listenForAny([never], stop.signal);
      stop.abort(new Error("SIGTERM"));
      await settle();
      await assert.rejects(woken.first(), { message: "SIGTERM" });
      assert.deepEqual(unhandled, []);
    } finally {
      process.off("unhandledRejection", hear);
    }
  });

  it("leaves nothing waiting when it is disposed of", async () => {
    let aborted = false;
    const wait = (signal: AbortSignal) => never(signal).finally(() => (aborted = signal.aborted));
    {
      using _ = listenForAny([wait], new AbortController().signal);
    }
    await settle();
    assert.ok(aborted);
  });
});
