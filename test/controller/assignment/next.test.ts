import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { type AssignmentEvent, type EventType, eventTypes } from "../../../controller/assignment/event.ts";
import { failureFor } from "../../../controller/assignment/failure.ts";
import { cellOf } from "../../../controller/assignment/machine.ts";
import { assignmentMachine, next } from "../../../controller/assignment/next.ts";
import { overdue } from "../../../controller/assignment/overdue.ts";
import {
  type AssignmentRecord,
  claimOf,
  currentAttempt,
  type PhaseName,
  phaseNames,
  resultOf,
} from "../../../controller/assignment/record.ts";
import { defaultTimes } from "../../../controller/assignment/times.ts";
import { anAttempt, aRecord, testStart } from "../../support/builders.ts";
import { anEvent, aReport, inPhase, ofAnotherAttempt } from "../../support/phases.ts";

const now = testStart + 1_000;

function moved(record: AssignmentRecord, event: AssignmentEvent): AssignmentRecord {
  const transition = next(record, event, now);
  assert.ok(transition.moved, transition.moved ? "" : transition.because);
  return transition.record;
}

/** Where each event leads from the builders' phase; no entry: nothing moves. */
const table: { readonly [Name in PhaseName]: Partial<Record<EventType, PhaseName>> } = {
  queued: {
    attempt_begun: "starting",
    executor_adopted: "adopted",
    rows_begun: "queued",
    cancel_told: "ending",
    failed: "ending",
    ended_by_gitea: "finished",
    queued_again: "queued",
  },
  starting: {
    attempt_lost: "queued",
    claimed: "claimed",
    rows_begun: "starting",
    cancel_told: "ending",
    failed: "ending",
    ended_by_gitea: "finished",
    queued_again: "starting",
  },
  adopted: { claimed: "claimed", failed: "ending", ended_by_gitea: "finished" },
  claimed: {
    steps_reported: "claimed",
    cancel_told: "claimed",
    result_reported: "ending",
    failed: "ending",
    ended_by_gitea: "finished",
  },
  ending: {
    executor_gone: "ending",
    accepted: "finished",
    report_given_up: "finished",
    ended_by_gitea: "finished",
  },
  finished: {},
};

describe("what becomes of an assignment", () => {
  for (const phase of phaseNames)
    for (const type of eventTypes) {
      const target = table[phase][type];
      it(`${type} while ${phase}: ${target ?? "ignored, and a rule says why"}`, () => {
        const record = inPhase(phase);
        const transition = next(record, anEvent[type], now);
        const cell = cellOf(assignmentMachine, phase, type);
        if (target === undefined) {
          assert.ok(!transition.moved);
          assert.match(transition.because, /^[A-Za-z].{5,}$/);
          return;
        }
        assert.ok(transition.moved, transition.moved ? "" : transition.because);
        assert.equal(transition.record.phase.name, target);
        assert.ok("to" in cell && cell.to.includes(target), "the table of the README says so");
      });
    }

  it("is never moved by what is about another attempt", () => {
    for (const phase of phaseNames.filter((name) => name !== "queued"))
      for (const type of eventTypes) {
        const event = ofAnotherAttempt(anEvent[type]);
        // An executor of an attempt that the record does not know of says that the record is an old one.
        if (event === anEvent[type] || event.type === "executor_adopted") continue;
        assert.equal(next(inPhase(phase), event, now).moved, false, `${type} while ${phase}`);
      }
  });

  it("begins attempts that grow by one, each with its own nonce", () => {
    let record = aRecord();
    for (const number of [1, 2, 3]) {
      const { nonce } = anAttempt({ number });
      record = moved(record, { ...anEvent.attempt_begun, nonce });
      assert.deepEqual(currentAttempt(record), { number, nonce });
      assert.deepEqual(record.phase, {
        name: "starting",
        attempt: { number, nonce },
        since: now,
        deadlineAt: anEvent.attempt_begun.deadlineAt,
      });
      const again = next(record, { ...anEvent.attempt_begun, nonce }, now);
      assert.deepEqual(again, { moved: false, because: "it has begun already" });
      record = moved(record, {
        ...anEvent.attempt_lost,
        attempt: { number, nonce },
        burnt: number !== 2,
        retryAt: now + number,
      });
      assert.deepEqual(record.phase, { name: "queued", notBefore: now + number });
    }
    assert.deepEqual(record.attempts, { begun: 3, burnt: 2, lost: anEvent.attempt_lost.failure });
  });

  it("adopts no executor of an attempt that is known to be lost", () => {
    const record = aRecord({ attempts: { begun: 1, burnt: 1 } });
    assert.equal(next(record, anEvent.executor_adopted, now).moved, false);
  });

  it("adopts an executor of a later attempt than it knows of: the record is an old one", () => {
    const attempt = anAttempt({ number: 2 });
    for (const record of [aRecord({ attempts: { begun: 1, burnt: 1 } }), inPhase("starting")]) {
      const adopted = moved(record, { type: "executor_adopted", attempt });
      assert.deepEqual(adopted.phase, { name: "adopted", attempt, since: now });
      assert.equal(adopted.attempts.begun, 2);
    }
  });

  it("keeps the first claim for ever, and its deadline if one is known", () => {
    const record = moved(inPhase("starting"), anEvent.claimed);
    const { instance, logRows } = anEvent.claimed;
    assert.deepEqual(claimOf(record), { instance, logRows, at: now });
    assert.equal("deadlineAt" in record.phase, true);
    assert.equal("deadlineAt" in moved(inPhase("adopted"), anEvent.claimed).phase, false);
  });

  it("keeps the first word of a cancel, so that its grace ends", () => {
    const record = moved(inPhase("claimed"), anEvent.cancel_told);
    assert.equal(record.phase.name === "claimed" ? record.phase.cancelledAt : undefined, now);
    assert.equal(next(record, anEvent.cancel_told, now + 1).moved, false);
  });

  it("drops a verdict on an unclaimed task when a claim, or what may be one, was stored first", () => {
    const verdict = { ...anEvent.failed, unclaimed: true };
    for (const phase of ["queued", "starting"] as const)
      assert.equal(moved(inPhase(phase), verdict).phase.name, "ending");
    for (const phase of ["adopted", "claimed"] as const)
      assert.equal(next(inPhase(phase), verdict, now).moved, false);
  });

  it("waits for an executor's end only where there may be one", () => {
    const gone = (record: AssignmentRecord) =>
      record.phase.name === "ending" && record.phase.end.by === "controller" && record.phase.end.executorGone;
    assert.equal(gone(moved(inPhase("queued"), anEvent.failed)), true);
    assert.equal(gone(moved(inPhase("queued"), anEvent.cancel_told)), true);
    for (const phase of ["starting", "adopted", "claimed"] as const) {
      const ending = moved(inPhase(phase), anEvent.failed);
      assert.equal(gone(ending), false, phase);
      assert.equal(gone(moved(ending, anEvent.executor_gone)), true);
    }
  });

  it("makes a verdict of a report that is lost, and tells what Gitea shows", () => {
    const reported = moved(inPhase("claimed"), anEvent.result_reported);
    assert.equal(resultOf(reported), aReport.result);
    const lost = moved(reported, anEvent.report_lost);
    assert.equal(resultOf(lost), "failure");
    assert.equal(next(lost, anEvent.report_lost, now).moved, false);
    const by = ({ phase }: AssignmentRecord) => (phase.name === "finished" ? [phase.by, phase.result] : []);
    assert.deepEqual(by(moved(reported, anEvent.accepted)), ["executor", "cancelled"]);
    assert.deepEqual(by(moved(lost, anEvent.accepted)), ["controller", "cancelled"]);
    assert.deepEqual(by(moved(lost, anEvent.report_given_up)), ["controller", "failure"]);
    assert.deepEqual(by(moved(reported, anEvent.ended_by_gitea)), ["gitea", "cancelled"]);
  });

  const attempts = fc.integer({ min: 1, max: 3 }).map((number) => anAttempt({ number }));
  const failures = fc.constantFrom(
    failureFor("no_result", "it ended"),
    failureFor("image_missing", "no such image"),
  );
  /** Any event, about any attempt: those of the current one are drawn often enough to get far. */
  const events: fc.Arbitrary<AssignmentEvent> = fc
    .tuple(fc.constantFrom(...eventTypes), attempts, failures, fc.nat({ max: 5 }), fc.boolean())
    .map(([type, attempt, failure, count, flag]): AssignmentEvent => {
      const event = anEvent[type];
      if (event.type === "attempt_begun") return { ...event, nonce: attempt.nonce };
      if (event.type === "attempt_lost") return { ...event, attempt, failure, burnt: flag };
      if (event.type === "claimed")
        return { ...event, attempt, instance: `instance ${count}`, logRows: count };
      if (event.type === "failed") return { ...event, failure, result: flag ? "cancelled" : "failure" };
      if (event.type === "queued_again") return { ...event, sequence: count };
      return "attempt" in event ? { ...event, attempt } : event;
    });

  /** Every phase; and an end by a report, which few sequences come to: only there can a report be lost. */
  const starts = fc.constantFrom(
    ...phaseNames.map((name) => inPhase(name)),
    moved(inPhase("claimed"), anEvent.result_reported),
  );

  it("is told by any sequence of events: none throws, nothing leaves the end, attempts only grow, one claim at most", () => {
    const reached = new Set<string>();
    fc.assert(
      fc.property(
        starts,
        fc.array(fc.tuple(events, fc.nat({ max: 3_600_000 })), { maxLength: 30 }),
        (start, sequence) => {
          let record = start;
          let at = testStart;
          const claims = new Set<string>();
          for (const [event, later] of sequence) {
            at += later;
            const before = structuredClone(record);
            const transition = next(record, event, at);
            assert.deepEqual(record, before, "a transition changes nothing in place");
            assert.deepEqual(next(record, event, at), transition, "it is a function");
            if (!transition.moved) {
              assert.notEqual(transition.because, "");
              continue;
            }
            assert.notEqual(record.phase.name, "finished");
            const cell = cellOf(assignmentMachine, record.phase.name, event.type);
            const after = transition.record;
            assert.ok("to" in cell && cell.to.includes(after.phase.name));
            assert.ok(after.attempts.begun >= record.attempts.begun);
            assert.ok(after.attempts.burnt >= record.attempts.burnt);
            assert.ok(!record.rowsBegun || after.rowsBegun);
            assert.deepEqual(after.assignment, record.assignment);
            const claim = claimOf(after);
            if (claim !== undefined) claims.add(claim.instance);
            if (claimOf(record) !== undefined) assert.deepEqual(claim, claimOf(record));
            // A decided end is only overtaken by Gitea's own, or by the loss of the report.
            if (
              record.phase.name === "ending" &&
              event.type !== "report_lost" &&
              after.phase.name === "ending"
            )
              assert.equal(resultOf(after), resultOf(record));
            reached.add(`${event.type}: ${record.phase.name} → ${after.phase.name}`);
            record = after;
          }
          assert.ok(claims.size <= 1);
        },
      ),
      { numRuns: 3_000 },
    );
    const declared = phaseNames.flatMap((phase) =>
      eventTypes.flatMap((type) => {
        const cell = cellOf(assignmentMachine, phase, type);
        return "to" in cell ? cell.to.map((to) => `${type}: ${phase} → ${to}`) : [];
      }),
    );
    assert.deepEqual([...reached].toSorted(), declared.toSorted(), "each move that is declared happens");
  });

  it("comes to its end by time alone, whatever happened before, and whoever is heard", () => {
    const { reportGiveUpMs, endlessMs, pendingMs, claimMs, deadlineMarginMs } = defaultTimes;
    const bound = reportGiveUpMs + endlessMs + pendingMs + claimMs + deadlineMarginMs;
    fc.assert(
      fc.property(
        fc.constantFrom(...phaseNames),
        fc.array(fc.tuple(events, fc.nat({ max: 600_000 })), { maxLength: 12 }),
        fc.boolean(),
        (from, sequence, isHeard) => {
          let record = inPhase(from);
          let at = testStart;
          for (const [event, later] of sequence) {
            at += later;
            const transition = next(record, event, at);
            if (transition.moved) ({ record } = transition);
          }
          const since = at;
          for (; record.phase.name !== "finished"; at += 60_000) {
            assert.ok(at - since <= bound, `still ${record.phase.name}`);
            const event = overdue(record, isHeard ? at : since, at, defaultTimes);
            if (event === undefined) continue;
            const transition = next(record, event, at);
            assert.ok(transition.moved, "what time decides is never ignored");
            ({ record } = transition);
          }
        },
      ),
      { numRuns: 500 },
    );
  });
});
