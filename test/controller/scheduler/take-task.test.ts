import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { type Failure, failureFor } from "../../../controller/assignment/failure.ts";
import { createHeldUp } from "../../../controller/scheduler/held-up.ts";
import { createTakeTask, type TakeTaskOptions } from "../../../controller/scheduler/take-task.ts";
import { abortable } from "../../../controller/platform/signal.ts";
import { createFakeClock, settle, type FakeClock } from "../../fakes/fake-clock.ts";
import { createRecordingLogger } from "../../fakes/recording-logger.ts";
import { aTask } from "../../support/a-task.ts";
import { anAssignment, testStart } from "../../support/builders.ts";

class TooLarge extends Error {
  readonly limit = 1_000_000;
}

function setUp(overrides: Partial<TakeTaskOptions> = {}) {
  const calls: string[] = [];
  const clock = createFakeClock();
  const log = createRecordingLogger();
  const heldUp = createHeldUp();
  const stop = new AbortController();
  /** Errors that the next calls fail with, by name. */
  const failures: Record<string, Error[]> = { publish: [], offer: [], fail: [] };
  const ended: (Failure | undefined)[] = [];
  const step = (name: string) => {
    calls.push(name);
    const error = failures[name]?.shift();
    return error === undefined ? Promise.resolve() : Promise.reject(error);
  };
  const take = createTakeTask({
    read: () => ({ ok: true, assignment: anAssignment() }),
    compress: () => Promise.resolve(new Uint8Array([1])),
    publish: async () => {
      await step("publish");
      return { sequence: 7 };
    },
    isKnown: () => false,
    offer: async ({ sequence }) => {
      assert.equal(sequence, 7);
      await step("offer");
    },
    fail: async (_, failure) => {
      await step("fail");
      ended.push(failure);
    },
    beat: async () => {
      await step("beat");
      return "running";
    },
    heldUp,
    clock,
    random: () => 0,
    log,
    ...overrides,
  });
  const run = () => take(aTask(), testStart, stop.signal);
  /** Whether fetching goes on. */
  const open = async () => {
    const now = new AbortController();
    const over = heldUp.over(now.signal).then(
      () => true,
      () => false,
    );
    await settle();
    now.abort();
    return over;
  };
  return { calls, clock, log, stop, failures, ended, run, open };
}

/** Between two tries: what else waits then is the deadline of a try. */
async function pausing(clock: FakeClock): Promise<void> {
  await clock.waiting();
  await settle();
}

const times = (count: number, message = "no answer") =>
  Array.from({ length: count }, () => new Error(message));

describe("taking a task in", () => {
  it("B-22 publishes it, then makes its record", async () => {
    const { calls, run, log } = setUp();
    await run();
    assert.deepEqual(calls, ["publish", "offer"]);
    assert.deepEqual((await log.line("task stored")).fields["assignment"], "gitea-task-42");
  });

  it("B-22 tries to publish again, 0.5 s to 5 s apart, until it is stored, and settles only then", async () => {
    const { calls, clock, run, failures, log } = setUp();
    failures["publish"] = times(6);
    let settled = false;
    const taken = run().then(() => (settled = true));
    const pauses: number[] = [];
    for (let i = 0; i < 6; i++) {
      await pausing(clock);
      assert.ok(!settled);
      pauses.push(clock.pending()[0] ?? 0);
      await clock.step(pauses[i] ?? 0);
    }
    await taken;
    assert.deepEqual(pauses, [500, 1_000, 2_000, 4_000, 5_000, 5_000]);
    assert.equal(calls.filter((call) => call === "publish").length, 7);
    assert.equal(log.lines.filter(({ message }) => message === "publishing a task failed").length, 6);
  });

  it("B-22 holds all fetching up from the first failure until the task is stored", async () => {
    const { clock, run, failures, open } = setUp();
    assert.ok(await open());
    failures["publish"] = times(1);
    const taken = run();
    await pausing(clock);
    assert.ok(!(await open()));
    await clock.step(500);
    await taken;
    assert.ok(await open());
  });

  it("holds fetching up while the record cannot be made as well", async () => {
    const { calls, clock, run, failures, open } = setUp();
    failures["offer"] = times(2);
    const taken = run();
    await pausing(clock);
    assert.ok(!(await open()));
    await clock.step(10_000);
    await taken;
    assert.ok(await open());
    assert.deepEqual(calls, ["publish", "offer", "offer", "offer"]);
  });

  it("beats every 12 to 17 s for a task that it holds", async () => {
    const { calls, clock, run, failures } = setUp();
    failures["publish"] = times(20);
    const taken = run();
    await pausing(clock);
    await clock.step(60_000);
    const beats = calls.filter((call) => call === "beat").length;
    assert.ok(beats >= 3 && beats <= 5, String(beats));
    await clock.step(60_000);
    await taken;
  });

  it("neither beats nor ends a task whose message has been delivered, though no publish was ever answered", async () => {
    let known = false;
    const { calls, clock, run, failures, stop } = setUp({ isKnown: () => known });
    failures["publish"] = times(100);
    const taken = run();
    await pausing(clock);
    await clock.step(500);
    await pausing(clock);
    known = true;
    const before = [...calls];
    stop.abort();
    await clock.step(60_000);
    await taken;
    assert.deepEqual(calls, before);
  });

  it("does not beat for a task whose delivery has made the record that it could not make", async () => {
    let known = false;
    const { calls, clock, run, failures } = setUp({ isKnown: () => known });
    failures["offer"] = times(100);
    const taken = run();
    await pausing(clock);
    known = true;
    await clock.step(60_000);
    await taken;
    assert.deepEqual(calls, ["publish", "offer"]);
  });

  it("goes on when Gitea does not answer the beat", async () => {
    const { clock, run, failures, ended } = setUp({ beat: () => Promise.reject(new Error("away")) });
    failures["publish"] = times(10);
    const taken = run();
    await pausing(clock);
    await clock.step(60_000);
    await taken;
    assert.deepEqual(ended, []);
  });

  for (const [said, reports] of [
    ["cancelled", [undefined]],
    ["failure", []],
    ["gone", []],
  ] as const)
    it(`gives up storing when Gitea says ${said}, and reports a cancel only`, async () => {
      const { calls, clock, run, failures, ended, open } = setUp({ beat: () => Promise.resolve(said) });
      failures["publish"] = times(100);
      const taken = run();
      await pausing(clock);
      await clock.step(30_000);
      await taken;
      assert.deepEqual(ended, reports);
      assert.ok(!calls.includes("offer"));
      assert.ok(await open());
    });

  it("ends a task that can never be stored at once, with its size and the limit", async () => {
    const { calls, run, failures, ended, open } = setUp();
    failures["publish"] = [new TooLarge("the task takes 2000000 bytes in the queue, 1000000 are possible")];
    await run();
    assert.deepEqual(calls, ["publish", "fail"]);
    assert.equal(ended[0]?.reason, "too_large");
    assert.match(ended[0].evidence, /2000000 bytes in the queue, 1000000 are possible/);
    assert.ok(await open());
  });

  it("ends what cannot be run, with the reason that reading it gave", async () => {
    const failure = failureFor("labels", "runs-on: [x] names no backend");
    const { calls, run, ended } = setUp({ read: () => ({ ok: false, failure }) });
    await run();
    assert.deepEqual(calls, ["fail"]);
    assert.deepEqual(ended, [failure]);
  });

  for (const [what, override] of [
    [
      "read",
      {
        read: () => {
          throw new RangeError("zq7Pw3");
        },
      },
    ],
    ["compressed", { compress: () => Promise.reject(new Error("zq7Pw3")) }],
  ] as const)
    it(`ends a task that cannot be ${what}, instead of losing it`, async () => {
      const { calls, run, ended } = setUp(override);
      await run();
      assert.deepEqual(calls, ["fail"]);
      assert.deepEqual(ended, [failureFor("task_unreadable", "")]);
    });

  it("tries to end it for as long as Gitea is away, and holds nothing else up meanwhile", async () => {
    const { calls, clock, run, failures, ended, open } = setUp({
      read: () => ({ ok: false, failure: failureFor("fork_on_pod", "") }),
    });
    failures["fail"] = times(3);
    const taken = run();
    await pausing(clock);
    assert.ok(await open());
    await clock.step(20_000);
    await taken;
    assert.equal(calls.filter((call) => call === "fail").length, 4);
    assert.equal(ended.length, 1);
  });

  describe("at a stop", () => {
    it("B-20 stores a task that was fetched before it", async () => {
      const { calls, run, stop } = setUp();
      stop.abort();
      await run();
      assert.deepEqual(calls, ["publish", "offer"]);
    });

    it("stores one though NATS comes back some seconds later only: they may be upgraded together", async () => {
      const { calls, clock, run, stop, failures, ended } = setUp();
      failures["publish"] = times(4);
      const taken = run();
      await pausing(clock);
      stop.abort();
      await settle();
      await clock.step(15_000);
      await taken;
      assert.deepEqual(ended, []);
      assert.deepEqual(calls.slice(-2), ["publish", "offer"]);
    });

    it("tries for 20 s more, then fails the task in Gitea as could not be stored", async () => {
      const { calls, clock, run, stop, failures, ended, open } = setUp();
      failures["publish"] = times(100);
      const taken = run();
      await pausing(clock);
      stop.abort();
      await settle();
      await clock.step(15_000);
      assert.equal(calls.includes("fail"), false);
      await clock.step(10_000);
      await taken;
      assert.deepEqual(calls.slice(-2), ["publish", "fail"]);
      assert.deepEqual(ended, [failureFor("not_stored", "no answer")]);
      assert.ok(await open());
    });

    it("rejects, without trying for ever, when Gitea is away as well", async () => {
      const { clock, run, stop, failures, calls } = setUp();
      failures["publish"] = times(100);
      failures["fail"] = times(100, "gitea away");
      stop.abort();
      const taken = assert.rejects(run(), /gitea away/);
      await clock.step(30_000);
      await taken;
      assert.deepEqual(calls.slice(-2), ["publish", "fail"]);
    });

    it("leaves a record that cannot be made to the delivery of the stored task", async () => {
      const { run, stop, failures, ended } = setUp();
      failures["offer"] = times(100);
      stop.abort();
      await run();
      assert.deepEqual(ended, []);
    });

    it("does not wait for a publish that never answers", async () => {
      const { clock, run, stop, ended } = setUp({
        publish: (_, signal) => abortable(new Promise(() => undefined), signal),
      });
      stop.abort();
      const taken = run();
      await clock.waiting();
      await clock.step(30_000);
      await taken;
      assert.equal(ended[0]?.reason, "not_stored");
    });
  });
});
