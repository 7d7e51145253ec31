import assert from "node:assert/strict";
import { describe, it } from "mocha";
import type { AssignmentRecord, Phase } from "../../../controller/assignment/record.ts";
import { decodeRecord, encodeRecord, sameRecord } from "../../../controller/record/record-codec.ts";
import { anAssignment, anAttempt, aRecord } from "../../support/builders.ts";

const writer = { id: "a-process", counter: 7 };
const claim = { instance: "an-instance", logRows: 3, at: 2 };

const phases: readonly Phase[] = [
  { name: "queued" },
  { name: "starting", attempt: anAttempt({ number: 2 }), since: 1 },
  { name: "claimed", attempt: anAttempt(), claim },
  { name: "finished", result: "cancelled", at: 3 },
  { name: "finished", attempt: anAttempt(), claim, result: "success", at: 3 },
];

function changed(change: (value: { record: Record<string, unknown> }) => void) {
  const json = JSON.parse(Buffer.from(encodeRecord(aRecord(), writer)).toString()) as {
    record: Record<string, unknown>;
  };
  change(json);
  return decodeRecord(Buffer.from(JSON.stringify(json)));
}

describe("a record as it is stored", () => {
  for (const phase of phases) {
    it(`round-trips when ${phase.name}${"claim" in phase ? " with a claim" : ""}`, () => {
      const record = aRecord({ phase, rowsBegun: true });
      assert.deepEqual(decodeRecord(encodeRecord(record, writer)), { ok: true, record, writer });
    });
  }

  it("round-trips with steps, and with the largest task id", () => {
    const record: AssignmentRecord = aRecord({
      assignment: anAssignment({ taskId: 9_223_372_036_854_775_807n, trust: "fork", backend: "vm" }),
      steps: [
        { id: 0, result: "success", startedAt: "a", stoppedAt: "b", logIndex: 0, logLength: 5 },
        { id: 1, logIndex: 5, logLength: 0 },
      ],
    });
    assert.deepEqual(decodeRecord(encodeRecord(record, writer)), { ok: true, record, writer });
  });

  it("may hold fields of a newer version", () => {
    const decoded = changed(({ record }) => (record["later"] = true));
    assert.deepEqual(decoded, { ok: true, record: aRecord(), writer });
  });

  for (const [what, value, reason] of [
    ["phase", { name: "waiting" }, /^record\.phase/],
    ["sequence", "1", /^record\.sequence/],
    ["assignment", { ...anAssignment(), taskId: "41" }, /id and task id differ/],
    [
      "assignment",
      { ...anAssignment(), id: "gitea-task-9223372036854775808", taskId: "9223372036854775808" },
      /id and task id differ/,
    ],
    ["steps", undefined, /^record\.steps/],
  ] as const) {
    it(`is refused with a wrong ${what}, naming it`, () => {
      const decoded = changed(({ record }) => (record[what] = value));
      assert.ok(!decoded.ok);
      assert.match(decoded.reason, reason);
    });
  }

  it("is refused when it is no JSON, without quoting it", () => {
    assert.deepEqual(decodeRecord(Buffer.from("hunter2")), { ok: false, reason: "it is not JSON" });
  });
});

describe("two records", () => {
  it("are the same whatever the order of their fields", () => {
    const { phase, ...rest } = aRecord();
    assert.equal(sameRecord({ phase, ...rest }, aRecord()), true);
  });

  it("differ with any of their fields", () => {
    assert.equal(sameRecord(aRecord(), aRecord({ rowsBegun: true })), false);
    assert.equal(sameRecord(aRecord(), aRecord({ assignment: anAssignment({ taskId: 43n }) })), false);
  });
});
