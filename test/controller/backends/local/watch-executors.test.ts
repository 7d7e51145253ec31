import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "mocha";
import type { Executor, ExecutorState } from "../../../../controller/backends/backend.ts";
import { watchExecutors } from "../../../../controller/backends/local/watch-executors.ts";
import { createWakeup } from "../../../../controller/platform/wakeup.ts";
import { createFakeClock, type FakeClock, settle } from "../../../fakes/fake-clock.ts";
import { createRecordingLogger, type RecordingLogger } from "../../../fakes/recording-logger.ts";
import { anExecutorMetadata, testStart } from "../../../support/builders.ts";

describe("the watch over local executors", () => {
  let clock: FakeClock;
  let log: RecordingLogger;
  let stop: AbortController;
  let running: Promise<void>;
  let states: Map<string, ExecutorState | Error>;
  let tended: string[];
  let tend: (name: string) => Promise<void>;
  let changes: number;
  const wakeup = createWakeup();

  const list = async () => {
    const executors: Executor[] = [];
    for (const [name, state] of states) {
      if (state instanceof Error) throw state;
      executors.push({ name, state, metadata: anExecutorMetadata(), createdAt: testStart });
    }
    return { executors, invalid: [] };
  };

  beforeEach(async () => {
    clock = createFakeClock();
    log = createRecordingLogger();
    stop = new AbortController();
    states = new Map([
      ["a", { phase: "running" }],
      ["b", { phase: "running" }],
    ]);
    tended = [];
    tend = async () => undefined;
    changes = 0;
    const watched = {
      list,
      tend: (name: string) => {
        tended.push(name);
        return tend(name);
      },
      changed: () => changes++,
      clock,
      log,
      wakeup,
    };
    running = watchExecutors(watched, stop.signal);
    await settle();
  });
  afterEach(async () => {
    stop.abort(new Error("shutting down"));
    await running;
    assert.deepEqual(clock.pending(), []);
  });

  it("looks after each of them every 500 ms, and at once when woken", async () => {
    assert.deepEqual(tended, ["a", "b"]);
    await clock.step(499);
    assert.deepEqual(tended, ["a", "b"]);
    await clock.step(1);
    assert.deepEqual(tended, ["a", "b", "a", "b"]);
    wakeup.wake();
    await settle();
    assert.deepEqual(tended, ["a", "b", "a", "b", "a", "b"]);
  });

  it("tells of a change once, and of nothing when nothing changed", async () => {
    await clock.step(1000);
    assert.equal(changes, 0);
    states.set("a", { phase: "ended", reason: "its process is gone" });
    await clock.step(1000);
    assert.equal(changes, 1);
    states.delete("a");
    await clock.step(1000);
    assert.equal(changes, 2);
  });

  it("lets one that takes long keep nobody else waiting, and waits for it at the end", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    tend = (name) => (name === "a" ? promise : Promise.resolve());
    await clock.step(1500);
    assert.deepEqual(tended, ["a", "b", "a", "b", "b", "b"]);
    stop.abort(new Error("shutting down"));
    let over = false;
    const end = running.then(() => (over = true));
    await settle();
    assert.equal(over, false);
    resolve();
    await end;
  });

  it("says the same trouble once until it is over", async () => {
    tend = async (name) => {
      if (name === "a") throw new Error("the disk is full");
    };
    await clock.step(1500);
    tend = async () => undefined;
    await clock.step(500);
    tend = async () => {
      throw new Error("the disk is full");
    };
    await clock.step(500);
    assert.deepEqual(
      log.lines.map(({ fields }) => [fields["executor"], fields["error"]]),
      ["a", "a", "b"].map((executor) => [executor, "the disk is full"]),
    );
  });

  it("goes on when it cannot look, and says so", async () => {
    states.set("c", new Error("no such folder"));
    await clock.step(1000);
    states.delete("c");
    await clock.step(500);
    assert.equal(log.lines.length, 1);
    assert.equal(tended.length, 4);
  });
});
