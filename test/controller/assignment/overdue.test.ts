import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { deadlineOf, hasTimeLeft, overdue } from "../../../controller/assignment/overdue.ts";
import type { AssignmentRecord, PhaseName } from "../../../controller/assignment/record.ts";
import { defaultTimes as times } from "../../../controller/assignment/times.ts";
import { aRecord, testStart } from "../../support/builders.ts";
import { inPhase, testDeadline } from "../../support/phases.ts";

/** What the event says, and the reason. */
function told(record: AssignmentRecord, heardAt: number, now: number): string {
  const event = overdue(record, heardAt, now, times);
  if (event === undefined) return "nothing";
  const result = event.type === "failed" ? ` ${event.result}` : "";
  const unclaimed = record.phase.name === "queued" || record.phase.name === "starting";
  if (event.type === "failed") assert.equal(event.unclaimed === true, unclaimed);
  return "failure" in event ? `${event.type}${result}: ${event.failure.reason}` : event.type;
}

describe("what time alone makes of an assignment", () => {
  const latest = testStart + times.endlessMs - times.endlessMarginMs;
  /** Title, record, whether its executor is heard all the time, when it happens, and what. */
  const cases: readonly (readonly [string, AssignmentRecord, boolean, number, string])[] = [
    [
      "a queued task that cannot get its time any more",
      inPhase("queued"),
      true,
      latest - times.minimumRunMs + 1,
      "failed failure: no_time_left",
    ],
    [
      "an attempt that nobody claims",
      inPhase("starting", { deadlineAt: latest }),
      true,
      testStart + times.pendingMs + times.claimMs,
      "attempt_lost: too_slow",
    ],
    [
      "an attempt that nobody claims by its deadline",
      inPhase("starting", { deadlineAt: testStart + 7 }),
      true,
      testStart + 7,
      "failed failure: no_time_left",
    ],
    [
      "an adopted executor that is silent",
      inPhase("adopted"),
      false,
      testStart + times.silenceMs,
      "failed failure: record_lost",
    ],
    [
      "an adopted executor that is heard and never claims",
      inPhase("adopted"),
      true,
      latest + times.deadlineMarginMs,
      "failed failure: record_lost",
    ],
    [
      "a claimed executor that is silent",
      inPhase("claimed"),
      false,
      testStart + times.silenceMs,
      "failed failure: silent",
    ],
    [
      "a claimed executor past its deadline",
      inPhase("claimed"),
      true,
      testDeadline + times.deadlineMarginMs,
      "failed failure: deadline",
    ],
    [
      "a claimed executor whose deadline was lost with its record",
      { ...inPhase("claimed"), phase: withoutDeadline() },
      true,
      latest + times.deadlineMarginMs,
      "failed failure: deadline",
    ],
    [
      "a cancelled job that goes on",
      inPhase("claimed", { cancelledAt: testStart + 5 }),
      true,
      testStart + 5 + times.cancelGraceMs,
      "failed cancelled: cancel_ignored",
    ],
    [
      "an end that Gitea does not hear",
      inPhase("ending"),
      true,
      testStart + times.reportGiveUpMs,
      "report_given_up",
    ],
  ];
  for (const [title, record, isHeard, at, expected] of cases)
    it(`${title}: ${expected}`, () => {
      const heardAt = (now: number) => (isHeard ? now : testStart);
      assert.equal(told(record, heardAt(at - 1), at - 1), "nothing");
      assert.equal(told(record, heardAt(at), at), expected);
      assert.equal(told(record, heardAt(at + 1), at + 1), expected);
    });

  it("leaves alone what is over", () => {
    assert.equal(told(inPhase("finished"), testStart, testStart + 1e12), "nothing");
  });

  it("counts silence from the last word, and from the claim at the earliest", () => {
    const claimedAt = testStart + 60_000;
    const claim = { instance: "x", logRows: 0, at: claimedAt };
    const record = inPhase("claimed", { claim });
    assert.equal(told(record, testStart, claimedAt + times.silenceMs - 1), "nothing");
    assert.equal(told(record, testStart, claimedAt + times.silenceMs), "failed failure: silent");
    assert.equal(told(record, claimedAt + 9, claimedAt + times.silenceMs), "nothing");
  });

  it("has an exit for each phase that is not the end", () => {
    const covered = new Set<PhaseName>(cases.map(([, { phase }]) => phase.name));
    assert.deepEqual([...covered].toSorted(), ["adopted", "claimed", "ending", "queued", "starting"]);
  });

  it("ends an executor by the backend's own limit, or before Gitea ends the task, whichever is first", () => {
    const record = aRecord();
    assert.equal(deadlineOf(record, 1_000, testStart, times), testStart + 1_000);
    assert.equal(deadlineOf(record, times.endlessMs, testStart + 5, times), latest);
    assert.equal(hasTimeLeft(record, latest - times.minimumRunMs, times), true);
    assert.equal(hasTimeLeft(record, latest - times.minimumRunMs + 1, times), false);
  });
});

function withoutDeadline(): AssignmentRecord["phase"] {
  const { phase } = inPhase("claimed");
  assert.ok(phase.name === "claimed");
  const { deadlineAt: _, ...rest } = phase;
  return rest;
}
