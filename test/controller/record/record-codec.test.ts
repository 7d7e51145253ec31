import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { type AssignmentEvent, eventTypes } from "../../../controller/assignment/event.ts";
import { attemptsExhausted, failureFor } from "../../../controller/assignment/failure.ts";
import { next } from "../../../controller/assignment/next.ts";
import type { AssignmentRecord, Phase } from "../../../controller/assignment/record.ts";
import { decodeRecord, encodeRecord, sameRecord } from "../../../controller/record/record-codec.ts";
import { anAssignment, anAttempt, aRecord } from "../../support/builders.ts";

const writer = { id: "a-process", counter: 7 };
const claim = { instance: "an-instance", logRows: 3, at: 2 };

const report = { result: "success", key: "0123456789abcdef", parts: 2, bytes: 600_000 } as const;
const failure = failureFor("oom", "exit code 137");
const attempt = anAttempt({ number: 2 });

const phases: readonly (readonly [string, Phase])[] = [
  ["queued", { name: "queued", notBefore: 5 }],
  ["starting", { name: "starting", attempt, since: 1, deadlineAt: 9 }],
  ["adopted", { name: "adopted", attempt, since: 1 }],
  ["claimed", { name: "claimed", attempt, claim, deadlineAt: 9 }],
  ["claimed and cancelled, its attempt's record lost", { name: "claimed", attempt, claim, cancelledAt: 4 }],
  [
    "ending as its executor said",
    { name: "ending", attempt, claim, end: { by: "executor", report }, since: 3 },
  ],
  [
    "ending as we say",
    {
      name: "ending",
      attempt,
      claim,
      end: { by: "controller", result: "failure", failure, executorGone: false },
      since: 3,
    },
  ],
  [
    "ending before an attempt",
    { name: "ending", end: { by: "controller", result: "cancelled", executorGone: true }, since: 3 },
  ],
  ["finished before an attempt", { name: "finished", result: "cancelled", by: "controller", at: 3 }],
  [
    "finished by its executor",
    { name: "finished", attempt, claim, result: "skipped", by: "executor", at: 3 },
  ],
  ["finished by Gitea", { name: "finished", attempt, claim, result: "failure", by: "gitea", at: 3 }],
];

function changed(change: (value: { record: Record<string, unknown> }) => void) {
  const json = JSON.parse(Buffer.from(encodeRecord(aRecord(), writer)).toString()) as {
    record: Record<string, unknown>;
  };
  change(json);
  return decodeRecord(Buffer.from(JSON.stringify(json)));
}

describe("a record as it is stored", () => {
  for (const [what, phase] of phases) {
    it(`round-trips when ${what}`, () => {
      const record = aRecord({ phase, rowsBegun: true });
      assert.deepEqual(decodeRecord(encodeRecord(record, writer)), { ok: true, record, writer });
    });
  }

  it("round-trips with steps, and with the largest task id", () => {
    const record: AssignmentRecord = aRecord({
      assignment: anAssignment({ taskId: 9_223_372_036_854_775_807n, trust: "fork", backend: "vm" }),
      steps: [
        {
          id: 0,
          result: "success",
          startedAt: "0001-01-01T00:00:00.000Z",
          stoppedAt: "9999-12-31T23:59:59.999Z",
          logIndex: 0,
          logLength: 5,
        },
        { id: 1, logIndex: 5, logLength: 0 },
      ],
    });
    assert.deepEqual(decodeRecord(encodeRecord(record, writer)), { ok: true, record, writer });
  });

  it("round-trips with attempts that were lost, and with why the last of them was", () => {
    const lost = attemptsExhausted(failureFor("image_missing", "ErrImagePull"));
    assert.notEqual(lost.last, undefined);
    const record = aRecord({ attempts: { begun: 3, burnt: 2, lost } });
    assert.deepEqual(decodeRecord(encodeRecord(record, writer)), { ok: true, record, writer });
  });

  it("round-trips after every event in every phase", () => {
    const events: readonly AssignmentEvent[] = [
      { type: "attempt_begun", nonce: attempt.nonce, deadlineAt: 9 },
      { type: "attempt_lost", attempt, failure, burnt: true, retryAt: 7 },
      { type: "executor_adopted", attempt },
      { type: "claimed", attempt, instance: "an-instance", logRows: 3 },
      { type: "steps_reported", attempt, steps: [{ id: 0, logIndex: 0, logLength: 1 }] },
      { type: "rows_begun" },
      { type: "cancel_told" },
      { type: "result_reported", attempt, report },
      { type: "report_lost", failure },
      { type: "failed", failure, result: "failure" },
      { type: "executor_gone" },
      { type: "accepted", result: "success" },
      { type: "report_given_up" },
      { type: "ended_by_gitea", result: "failure" },
      { type: "queued_again", sequence: 8 },
    ];
    assert.deepEqual(
      events.map(({ type }) => type),
      eventTypes,
    );
    let moves = 0;
    for (const [, phase] of phases)
      for (const event of events) {
        const moved = next(aRecord({ phase }), event, 20);
        if (!moved.moved) continue;
        moves++;
        const { record } = moved;
        assert.deepEqual(
          decodeRecord(encodeRecord(record, writer)),
          { ok: true, record, writer },
          event.type,
        );
      }
    assert.ok(moves > 20);
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
    ["steps", [{ id: 0, startedAt: "noon", logIndex: 0, logLength: 0 }], /^record\.steps\.0\.startedAt/],
    ["attempts", { begun: 1, burnt: 0, lost: { reason: "bad luck", evidence: "" } }, /no name of a reason/],
    ["phase", { name: "finished", result: "failure", by: "somebody", at: 1 }, /^record\.phase\.by/],
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
