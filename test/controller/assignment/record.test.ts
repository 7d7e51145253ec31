import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import {
  type AssignmentRecord,
  beginAttempt,
  type Claim,
  currentAttempt,
  enterClaim,
  finish,
  isCurrentAttempt,
  type Phase,
  queuedRecord,
  type StepRecord,
  stepsMoved,
} from "../../../controller/assignment/record.ts";
import { anAssignment, anAttempt, aRecord, testStart } from "../../support/builders.ts";

const aClaim = (overrides: Partial<Claim> = {}): Claim => ({
  instance: "a".repeat(32),
  logRows: 3,
  at: testStart + 5000,
  ...overrides,
});
const other = aClaim({ instance: "b".repeat(32), logRows: 9 });

const started = (attempt = anAttempt()): AssignmentRecord =>
  aRecord({ phase: { name: "starting", attempt, since: testStart } });
const claimed = (claim = aClaim()) => aRecord({ phase: { name: "claimed", attempt: anAttempt(), claim } });
const finished = aRecord({ phase: { name: "finished", result: "success", at: testStart } });

describe("assignment record", () => {
  it("begins as queued, with nothing written and no attempt", () => {
    const record = queuedRecord(anAssignment(), { fetchedAt: 7, sequence: 9 });
    assert.deepEqual(record, {
      assignment: anAssignment(),
      fetchedAt: 7,
      sequence: 9,
      rowsBegun: false,
      steps: [],
      phase: { name: "queued" },
    });
    assert.equal(currentAttempt(record), undefined);
    assert.equal(isCurrentAttempt(record, anAttempt()), false);
  });

  it("begins attempts that grow by one, each with its own nonce", () => {
    const nonces = ["1", "2", "3"].map((digit) => digit.repeat(32));
    const attempts = nonces.reduce<AssignmentRecord[]>((records, nonce) => {
      const next = beginAttempt(records.at(-1) ?? aRecord(), nonce, testStart + records.length);
      assert.ok(next);
      return [...records, next];
    }, []);
    assert.deepEqual(
      attempts.map(({ phase }) => phase),
      nonces.map((nonce, n) => ({
        name: "starting",
        attempt: { number: n + 1, nonce },
        since: testStart + n,
      })),
    );
  });

  it("begins one attempt for one nonce, however often it is asked", () => {
    assert.deepEqual(beginAttempt(started(), anAttempt().nonce, testStart + 9), started());
  });

  it("knows its current attempt by number and nonce", () => {
    const record = started(anAttempt({ number: 2 }));
    assert.deepEqual(currentAttempt(record), anAttempt({ number: 2 }));
    assert.ok(isCurrentAttempt(record, anAttempt({ number: 2 })));
    assert.ok(!isCurrentAttempt(record, anAttempt({ number: 1 })));
    assert.ok(!isCurrentAttempt(record, anAttempt({ number: 2, nonce: anAttempt().nonce })));
    assert.ok(!isCurrentAttempt(record, anAttempt({ number: 1, nonce: anAttempt({ number: 2 }).nonce })));
  });

  it("begins no attempt after a claim or an end", () => {
    assert.equal(beginAttempt(claimed(), "f".repeat(32), testStart), undefined);
    assert.equal(beginAttempt(finished, "f".repeat(32), testStart), undefined);
  });

  it("refuses a claim before an attempt", () => {
    assert.deepEqual(enterClaim(aRecord(), aClaim()), { kind: "refused", reason: "no attempt has begun" });
  });

  it("enters the first claim, and keeps everything else", () => {
    const record = { ...started(), rowsBegun: true };
    assert.deepEqual(enterClaim(record, aClaim()), {
      kind: "claimed",
      claim: aClaim(),
      record: { ...claimed(), rowsBegun: true },
    });
  });

  it("gives the same instance the same answer, whatever it claims now", () => {
    const again = aClaim({ logRows: 99, at: testStart + 9000 });
    assert.deepEqual(enterClaim(claimed(), again), { kind: "repeated", claim: aClaim() });
  });

  it("refuses another instance for ever", () => {
    assert.deepEqual(enterClaim(claimed(), other), {
      kind: "refused",
      reason: "another instance has claimed the task",
    });
  });

  it("refuses every claim after the end, the claiming instance's too", () => {
    for (const claim of [aClaim(), other])
      assert.deepEqual(enterClaim(finish(claimed(), "success", testStart), claim), {
        kind: "refused",
        reason: "the task is over",
      });
  });

  it("keeps attempt and claim at the end: the executor may ask again for an answer that was lost", () => {
    const at = testStart + 60_000;
    assert.deepEqual(finish(claimed(), "failure", at).phase, {
      name: "finished",
      attempt: anAttempt(),
      claim: aClaim(),
      result: "failure",
      at,
    });
    assert.deepEqual(finish(started(), "failure", at).phase, {
      name: "finished",
      attempt: anAttempt(),
      result: "failure",
      at,
    });
    assert.deepEqual(finish(aRecord(), "cancelled", at).phase, { name: "finished", result: "cancelled", at });
  });

  it("keeps the first result", () => {
    const record = finish(claimed(), "success", testStart);
    assert.equal(finish(record, "failure", testStart + 1), record);
  });

  it("holds what it promises in every order of events", () => {
    const instance = fc.constantFrom("a", "b", "c");
    const event = fc.oneof(
      { weight: 3, arbitrary: fc.record({ kind: fc.constant("begin" as const) }) },
      {
        weight: 3,
        arbitrary: fc.record({ kind: fc.constant("claim" as const), instance, logRows: fc.nat(9) }),
      },
      {
        weight: 1,
        arbitrary: fc.record({
          kind: fc.constant("finish" as const),
          result: fc.constantFrom("success" as const, "failure" as const),
        }),
      },
    );
    fc.assert(
      fc.property(fc.array(event, { maxLength: 12 }), (events) => {
        let record = aRecord();
        let first: Claim | undefined;
        events.forEach((step, now) => {
          const before = record;
          if (step.kind === "begin")
            record = beginAttempt(record, String(now).padStart(32, "0"), now) ?? record;
          else if (step.kind === "finish") record = finish(record, step.result, now);
          else {
            const claim = { instance: step.instance, logRows: step.logRows, at: now };
            const outcome = enterClaim(record, claim);
            if (outcome.kind === "claimed") {
              assert.equal(first, undefined);
              first = claim;
              record = outcome.record;
            }
            if (outcome.kind !== "refused") assert.deepEqual(outcome.claim, first);
            assert.ok(outcome.kind === "refused" || first?.instance === step.instance);
          }
          checkTransition(before.phase, record.phase);
          assert.deepEqual({ ...record, phase: null }, { ...aRecord(), phase: null });
        });
      }),
      { numRuns: 1000 },
    );
  });
});

/** What no event may ever do, whatever the transitions are. */
function checkTransition(before: Phase, after: Phase): void {
  if (before === after) return;
  const order = ["queued", "starting", "claimed", "finished"];
  assert.ok(order.indexOf(after.name) >= order.indexOf(before.name), "a phase never goes back");
  assert.notEqual(before.name, "finished");
  const numbers = [before, after].map((phase) =>
    phase.name === "queued" ? 0 : (phase.attempt?.number ?? 0),
  );
  const grown = (numbers[1] ?? 0) - (numbers[0] ?? 0);
  assert.equal(grown, after.name === "starting" ? 1 : 0, "attempts grow by one and only when one begins");
  if (before.name === "claimed") {
    assert.equal(after.name, "finished");
    assert.deepEqual(after.name === "finished" ? after.claim : undefined, before.claim);
  }
}

describe("steps that moved", () => {
  const step = (overrides: Partial<StepRecord> = {}): StepRecord => ({
    id: 0,
    startedAt: "2026-01-01T00:00:00Z",
    logIndex: 0,
    logLength: 5,
    ...overrides,
  });
  const later = step({ id: 1, logIndex: 5, logLength: 0 });

  it("are a first report, a step more or less, a start and an end", () => {
    assert.ok(stepsMoved([], [step()]));
    assert.ok(stepsMoved([step()], [step(), later]));
    assert.ok(stepsMoved([step(), later], [step()]));
    assert.ok(stepsMoved([{ id: 0, logIndex: 0, logLength: 0 }], [step()]));
    assert.ok(stepsMoved([step()], [step({ result: "success", stoppedAt: "2026-01-01T00:00:09Z" })]));
    assert.ok(stepsMoved([step(), later], [step(), { ...later, result: "failure" }]));
  });

  it("are not logs that grow", () => {
    assert.ok(!stepsMoved([], []));
    assert.ok(!stepsMoved([step()], [step()]));
    assert.ok(!stepsMoved([step()], [step({ logIndex: 2, logLength: 500 })]));
  });
});
