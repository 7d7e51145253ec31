import assert from "node:assert/strict";
import { beforeEach, describe, it } from "mocha";
import { createExecutorMemory, type ExecutorMemory } from "../../../controller/lifecycle/executor-memory.ts";

describe("what is remembered of executors", () => {
  const lingerMs = 300_000;
  let now: number;
  let memory: ExecutorMemory;
  beforeEach(() => {
    now = 1_000_000;
    memory = createExecutorMemory({ lingerMs }, () => now);
  });
  const none = new Map<string, string>();
  const listed = (executors: Readonly<Record<string, boolean>>, lacking = none) => {
    const there = Object.entries(executors).map(([name, alive]) => ({ name, alive }));
    memory.listed(there, lacking, now);
  };
  const lingering = () => [...memory.lingering()];

  it("counts one as lingering that lives long after it was to be killed, or is there long after its deletion", () => {
    assert.equal(memory.killAsked("a"), true);
    assert.equal(memory.killAsked("a"), false);
    assert.equal(memory.deleteAsked("b"), true);
    now += lingerMs - 1;
    listed({ a: true, b: false, c: true });
    assert.deepEqual(lingering(), []);
    now += 1;
    assert.deepEqual(lingering(), ["a", "b"]);
    listed({ a: false, b: false });
    assert.deepEqual(lingering(), ["b"], "the other one has ended, and waits for Gitea");
    listed({ a: true });
    assert.deepEqual(lingering(), ["a"], "the list before was an old one");
  });

  it("knows what was deleted or forgotten, longer than any list is old, and not for ever", () => {
    memory.killAsked("a");
    memory.deleteAsked("b");
    memory.forgot("c");
    assert.deepEqual(
      ["a", "b", "c", "d"].map((name) => memory.isGone(name)),
      [false, true, true, false],
    );
    now += 9 * 60_000;
    listed({ b: false });
    now += 2 * 60_000;
    listed({});
    assert.deepEqual(
      ["b", "c"].map((name) => memory.isGone(name)),
      [true, false],
    );
    now += 10 * 60_000;
    listed({});
    assert.equal(memory.isGone("b"), false);
  });

  it("counts absence from the first list in a row that lacked it", () => {
    const lacking = new Map([["id", "a"]]);
    listed({}, lacking);
    const since = now;
    now += 5_000;
    listed({}, lacking);
    assert.equal(memory.absentSince("id", "a"), since);
    assert.equal(memory.absentSince("id", "another attempt's"), undefined);
    now += 5_000;
    listed({ a: true });
    listed({}, lacking);
    assert.equal(memory.absentSince("id", "a"), now);
  });
});
