import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "mocha";
import { sweepOrphans, type SweepOptions } from "../../../controller/static-entries/sweep-orphans.ts";
import { createFakeClock, type FakeClock, settle } from "../../fakes/fake-clock.ts";
import { createRecordingLogger, type RecordingLogger } from "../../fakes/recording-logger.ts";

type Thing = { readonly id: string; readonly of: string };

describe("the sweep of what was made for executors that are gone", () => {
  let clock: FakeClock;
  let log: RecordingLogger;
  let over: AbortController;
  let things: Thing[];
  let there: Set<string>;
  let asked: string[];
  let running: Promise<void>;

  const start = (more: Partial<SweepOptions<Thing>> = {}) => {
    running = sweepOrphans<Thing>(
      {
        found: () => things,
        keyOf: ({ id }) => id,
        executorOf: ({ of }) => of,
        isThere: async (executor) => {
          asked.push(executor);
          return there.has(executor);
        },
        remove: async ({ id }) => {
          things = things.filter((thing) => thing.id !== id);
          return true;
        },
        what: "agent",
        clock,
        steady: () => clock.now(),
        log,
        ...more,
      },
      over.signal,
    );
    return settle();
  };

  beforeEach(() => {
    clock = createFakeClock();
    log = createRecordingLogger();
    over = new AbortController();
    things = [{ id: "a1", of: "a" }];
    there = new Set();
    asked = [];
  });
  afterEach(async () => {
    over.abort();
    await running;
  });

  it("begins only after a minute without one, and says what it removed", async () => {
    await start();
    await clock.step(59_000);
    assert.deepEqual([things.length, asked], [1, []]);
    await clock.step(1_000);
    assert.deepEqual([things, asked], [[], ["a"]]);
    const [line] = log.lines;
    assert.deepEqual([line?.message, line?.fields["executor"]], ["agent without executor removed", "a"]);
  });

  it("asks again a minute after it was told that the executor is there", async () => {
    there.add("a");
    await start();
    await clock.step(60_000);
    await clock.step(59_000);
    assert.deepEqual([things.length, asked], [1, ["a"]]);
    there.clear();
    await clock.step(1_000);
    assert.deepEqual([things, asked], [[], ["a", "a"]]);
  });

  it("does not take what was made anew for what has been alone for long", async () => {
    await start();
    await clock.step(30_000);
    things = [{ id: "a2", of: "a" }];
    await clock.step(60_000);
    assert.equal(things.length, 1);
    await clock.step(30_000);
    assert.equal(things.length, 0);
  });

  it("asks nobody about an executor that is known to be there", async () => {
    await start({ isKnown: () => true });
    await clock.step(300_000);
    assert.deepEqual([things.length, asked], [1, []]);
  });

  it("goes on with the others, and the next time, when one cannot be asked for or the list fails", async () => {
    things = [...things, { id: "b1", of: "b" }];
    let trouble: "list" | "ask" | "none" = "ask";
    await start({
      found: async () => {
        if (trouble === "list") throw new Error("no list");
        return things;
      },
      isThere: async (executor) => {
        if (trouble === "ask" && executor === "a") throw new Error("no answer");
        return false;
      },
    });
    await clock.step(60_000);
    assert.deepEqual(
      things.map(({ id }) => id),
      ["a1"],
    );
    trouble = "list";
    await clock.step(30_000);
    trouble = "none";
    await clock.step(30_000);
    assert.deepEqual(things, []);
    assert.deepEqual(
      log.lines.map(({ message, fields }) => [message, fields["executor"], fields["error"]]),
      [
        ["sweeping agents failed", "a", "no answer"],
        ["agent without executor removed", "b", undefined],
        ["sweeping agents failed", undefined, "no list"],
        ["agent without executor removed", "a", undefined],
      ],
    );
  });
});
