import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import {
  claimOf,
  currentAttempt,
  isCurrentAttempt,
  isOpen,
  isUnclaimed,
  type PhaseName,
  phaseNames,
  queuedRecord,
  resultOf,
  sameAttempt,
  type StepRecord,
  stepsMoved,
} from "../../../controller/assignment/record.ts";
import { anAssignment, anAttempt, aRecord } from "../../support/builders.ts";
import { aClaim, inPhase } from "../../support/phases.ts";

describe("assignment record", () => {
  it("begins as queued, with nothing written and no attempt", () => {
    const record = queuedRecord(anAssignment(), { fetchedAt: 7, sequence: 9 });
    assert.deepEqual(record, {
      assignment: anAssignment(),
      fetchedAt: 7,
      sequence: 9,
      rowsBegun: false,
      attempts: { begun: 0, burnt: 0 },
      steps: [],
      phase: { name: "queued", notBefore: 0 },
    });
    assert.equal(currentAttempt(record), undefined);
    assert.equal(isCurrentAttempt(record, anAttempt()), false);
  });

  const facts = (holds: (record: ReturnType<typeof inPhase>) => boolean): readonly PhaseName[] =>
    phaseNames.filter((name) => holds(inPhase(name)));

  it("is unclaimed as long as the controller speaks for it, and open until the end is decided", () => {
    assert.deepEqual(facts(isUnclaimed), ["queued", "starting"]);
    assert.deepEqual(facts(isOpen), ["queued", "starting", "adopted", "claimed"]);
    assert.deepEqual(
      facts((record) => claimOf(record) !== undefined),
      ["claimed", "ending", "finished"],
    );
    assert.deepEqual(
      facts((record) => resultOf(record) !== undefined),
      ["ending", "finished"],
    );
  });

  it("names the current attempt, and after the end the one that ran last", () => {
    for (const name of phaseNames.filter((one) => one !== "queued")) {
      assert.equal(isCurrentAttempt(inPhase(name), anAttempt()), true, name);
      assert.equal(isCurrentAttempt(inPhase(name), anAttempt({ number: 2 })), false, name);
    }
    assert.equal(sameAttempt(anAttempt(), { ...anAttempt(), nonce: "f".repeat(32) }), false);
  });

  it("has the executor's result, or ours", () => {
    const report = { result: "success", key: "k", parts: 1, bytes: 3 } as const;
    const end = { by: "executor", report } as const;
    const record = aRecord({ phase: { name: "ending", attempt: anAttempt(), claim: aClaim, end, since: 1 } });
    assert.equal(resultOf(record), "success");
    assert.equal(resultOf(inPhase("ending")), "failure");
  });

  const step: fc.Arbitrary<StepRecord> = fc
    .record({
      id: fc.nat({ max: 5 }),
      startedAt: fc.option(fc.constantFrom("2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"), {
        nil: undefined,
      }),
      result: fc.option(fc.constantFrom("success" as const, "failure" as const), { nil: undefined }),
      logIndex: fc.nat({ max: 9 }),
      logLength: fc.nat({ max: 9 }),
    })
    .map(({ startedAt, result, ...rest }) => ({
      ...rest,
      ...(startedAt === undefined ? {} : { startedAt }),
      ...(result === undefined ? {} : { result }),
    }));

  it("takes steps as moved when one starts or ends, not when their logs grow", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 4 }), (steps) => {
        assert.equal(
          stepsMoved(
            steps,
            steps.map((one) => ({ ...one, logLength: one.logLength + 1 })),
          ),
          false,
        );
        assert.equal(stepsMoved(steps, [...steps, { id: 9, logIndex: 0, logLength: 0 }]), true);
        for (const [index, one] of steps.entries())
          assert.equal(
            stepsMoved(steps, steps.with(index, { ...one, startedAt: "2026-01-01T00:00:09Z" })),
            true,
          );
      }),
    );
  });
});
