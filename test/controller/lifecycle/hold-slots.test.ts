import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import type { Executor } from "../../../controller/backends/backend.ts";
import { holdInvalid, holdSlots } from "../../../controller/lifecycle/hold-slots.ts";
import { createSlots } from "../../../controller/slots/slots.ts";
import { createRecordingLogger } from "../../fakes/recording-logger.ts";
import { anAssignment, anExecutorMetadata, testStart } from "../../support/builders.ts";

describe("slots in line with what there is", () => {
  const executors = fc.uniqueArray(
    fc.record({ taskId: fc.bigInt({ min: 1n, max: 9n }), alive: fc.boolean(), lingers: fc.boolean() }),
    { maxLength: 9, selector: ({ taskId }) => taskId },
  );
  const ids = fc.uniqueArray(fc.bigInt({ min: 1n, max: 9n }).map((taskId) => anAssignment({ taskId }).id));

  it("I3 each living executor holds one unless it lingers, and nobody who is unknown does", () => {
    fc.assert(
      fc.property(executors, ids, ids, fc.integer({ min: 1, max: 4 }), (all, held, known, capacity) => {
        const slots = createSlots(capacity);
        for (const id of held) slots.restore(id);
        const there = all.map(({ taskId, alive }): Executor => {
          const assignment = anAssignment({ taskId });
          return {
            name: `executor of ${assignment.id}`,
            metadata: anExecutorMetadata({ assignment }),
            state: alive ? { phase: "running" } : { phase: "ended", reason: "" },
            createdAt: testStart,
          };
        });
        const lingering = new Set(there.filter((_, index) => all[index]?.lingers).map(({ name }) => name));
        holdSlots(slots, there, lingering, (id) => known.includes(id));
        const live = there.filter(({ state, name }) => state.phase !== "ended" && !lingering.has(name));
        for (const { metadata } of live) assert.ok(slots.has(metadata.assignment.id));
        assert.ok(live.length <= slots.held().length);
        const liveIds = new Set(live.map(({ metadata }) => metadata.assignment.id));
        for (const id of slots.held())
          assert.ok(liveIds.has(id) || (known.includes(id) && held.includes(id)), id);
        for (const id of held) if (known.includes(id)) assert.ok(slots.has(id), "its steps give it back");
        assert.equal(slots.free(), Math.max(0, capacity - slots.held().length));
      }),
    );
  });

  it("what does not validate holds one of its own, is told once, and gives it back with its end or by lingering", () => {
    const slots = createSlots(1);
    const log = createRecordingLogger();
    const one = { name: "pod-1", reason: "its nonce is missing", createdAt: testStart };
    const look = (there: readonly (typeof one)[], lingering: readonly string[] = []) =>
      holdInvalid(slots, there, new Set(lingering), log);
    slots.restore("gitea-task-42");
    look([one]);
    look([one]);
    assert.deepEqual(slots.held(), ["gitea-task-42", "invalid/pod-1"]);
    assert.equal(log.lines.length, 1);
    look([one], ["pod-1"]);
    assert.deepEqual(slots.held(), ["gitea-task-42"]);
    look([one]);
    look([]);
    assert.deepEqual(slots.held(), ["gitea-task-42"]);
  });
});
