import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { executorName } from "../../../controller/assignment/executor-metadata.ts";
import {
  type AssignmentRecord,
  type Claim,
  currentAttempt,
  type Phase,
} from "../../../controller/assignment/record.ts";
import { defaultTimes } from "../../../controller/assignment/times.ts";
import type { Executor, ExecutorState } from "../../../controller/backends/backend.ts";
import { nextSteps, type Seen, type Step } from "../../../controller/lifecycle/next-step.ts";
import { anAssignment, anAttempt, anExecutorMetadata, aRecord, testStart } from "../../support/builders.ts";

const assignment = anAssignment();
const grace = defaultTimes.terminalGraceMs;
const claim: Claim = { instance: "instance-of-the-first", logRows: 0, at: testStart };

const nameOf = (number: number) => executorName(assignment, anAttempt({ number }));

function executor(number: number, state: ExecutorState["phase"], terminal = false): Executor {
  return {
    name: nameOf(number),
    metadata: anExecutorMetadata({ attempt: anAttempt({ number }), terminal }),
    state: state === "ended" ? { phase: state, reason: "exited with code 1" } : { phase: state },
    createdAt: testStart,
  };
}

const starting = (number: number): Phase => ({
  name: "starting",
  attempt: anAttempt({ number }),
  since: testStart,
});
const claimed = (number: number): Phase => ({ name: "claimed", attempt: anAttempt({ number }), claim });
const finished = (what: { number?: number; claimed?: boolean } = {}): Phase => ({
  name: "finished",
  ...(what.number === undefined ? {} : { attempt: anAttempt({ number: what.number }) }),
  ...(what.claimed === true ? { claim } : {}),
  result: "success",
  at: testStart,
});

function steps(
  phase: Phase | undefined,
  executors: readonly Executor[],
  afterMs = 0,
  unreadable: readonly string[] = [],
): readonly string[] {
  const there = { executors, unreadable };
  const seen: Seen = phase === undefined ? there : { record: aRecord({ phase }), ...there };
  return nextSteps(seen, testStart + afterMs, defaultTimes).map(asText);
}

function asText(step: Step): string {
  const attempt = "executor" in step ? [1, 2, 3].find((number) => nameOf(number) === step.executor) : "";
  return `${step.do} ${attempt}`.trim();
}

describe("the next steps of an assignment", () => {
  const cases: readonly (readonly [
    string,
    Phase | undefined,
    readonly Executor[],
    number,
    readonly string[],
  ])[] = [
    ["queued, nothing there", { name: "queued" }, [], 0, []],
    ["queued, one that lives and whose record was lost", { name: "queued" }, [executor(1, "running")], 0, []],
    ["queued, one that has ended", { name: "queued" }, [executor(1, "ended")], 0, ["delete 1"]],
    ["starting, not created yet", starting(1), [], 0, []],
    ["starting, on its way", starting(1), [executor(1, "starting")], 0, []],
    ["starting, died: the worker's", starting(1), [executor(1, "ended")], 0, []],
    [
      "starting, the attempt before it still lives",
      starting(2),
      [executor(1, "running"), executor(2, "running")],
      0,
      ["delete 1"],
    ],
    ["claimed and running", claimed(1), [executor(1, "running")], 10 * grace, []],
    ["claimed and ended", claimed(1), [executor(1, "ended")], 0, ["fail"]],
    ["claimed and gone", claimed(1), [], 0, ["fail"]],
    [
      "claimed, an earlier attempt's lives",
      claimed(2),
      [executor(1, "running"), executor(2, "running")],
      0,
      ["delete 1"],
    ],
    ["finished, winding up", finished({ number: 1, claimed: true }), [executor(1, "running")], grace - 1, []],
    [
      "finished, too long",
      finished({ number: 1, claimed: true }),
      [executor(1, "running")],
      grace,
      ["kill 1"],
    ],
    [
      "finished and ended",
      finished({ number: 1, claimed: true }),
      [executor(1, "ended")],
      0,
      ["release", "delete 1"],
    ],
    ["finished and gone", finished({ number: 1, claimed: true }), [], 0, ["release", "forget"]],
    ["finished before an attempt", finished(), [], 0, ["release", "forget"]],
    ["finished before the claim", finished({ number: 1 }), [executor(1, "running")], 0, ["kill 1"]],
    ["finished before the claim, and it may still come", finished({ number: 1 }), [], grace - 1, ["release"]],
    ["finished before the claim, it came never", finished({ number: 1 }), [], grace, ["release", "forget"]],
    ["without a record, running: counts as claimed", undefined, [executor(1, "running")], 10 * grace, []],
    ["without a record, ended", undefined, [executor(1, "ended")], 0, ["fail", "release", "delete 1"]],
    [
      "without a record, ended with its result",
      undefined,
      [executor(1, "ended", true)],
      0,
      ["release", "delete 1"],
    ],
    ["without a record, winding up", undefined, [executor(1, "running", true)], grace - 1, []],
    ["without a record, winding up too long", undefined, [executor(1, "running", true)], grace, ["kill 1"]],
  ];
  for (const [title, phase, executors, afterMs, expected] of cases) {
    it(`${title}: ${expected.join(", ") || "nothing"}`, () => {
      assert.deepEqual(steps(phase, executors, afterMs), expected);
    });
  }

  it("take an executor that cannot be read for one that is there, and another's for nothing", () => {
    assert.deepEqual(steps(claimed(1), [], 0, [nameOf(1)]), []);
    assert.deepEqual(steps(claimed(2), [], 0, [nameOf(1)]), ["fail"]);
    const over = finished({ number: 1, claimed: true });
    assert.deepEqual(steps(over, [], grace, [nameOf(1)]), ["release"]);
    assert.deepEqual(steps(over, [], grace, [nameOf(2)]), ["release", "forget"]);
  });

  it("says why an executor's task failed", () => {
    const seen = {
      record: aRecord({ phase: claimed(1) }),
      executors: [executor(1, "ended")],
      unreadable: [],
    };
    assert.deepEqual(nextSteps(seen, testStart, defaultTimes), [
      {
        do: "fail",
        result: "failure",
        reason: "The executor ended before the job was over: exited with code 1.",
      },
    ]);
  });

  const number = fc.integer({ min: 1, max: 3 });
  const phases: fc.Arbitrary<Phase | undefined> = fc.oneof(
    fc.constant(undefined),
    fc.constant<Phase>({ name: "queued" }),
    number.map(starting),
    number.map(claimed),
    fc
      .record({ number: fc.option(number, { nil: undefined }), claimed: fc.boolean() })
      .map((what) =>
        finished(what.number === undefined ? {} : { number: what.number, claimed: what.claimed }),
      ),
  );
  const executors = fc
    .uniqueArray(number, { maxLength: 3 })
    .chain((numbers) =>
      fc.tuple(
        ...numbers.map((each) =>
          fc
            .tuple(fc.constantFrom<ExecutorState["phase"]>("starting", "running", "ended"), fc.boolean())
            .map(([state, terminal]) => executor(each, state, terminal)),
        ),
      ),
    );
  const world = fc.record({ phase: phases, executors, afterMs: fc.integer({ min: 0, max: 2 * grace }) });

  function everywhere(
    holds: (what: {
      readonly record: AssignmentRecord | undefined;
      readonly executors: readonly Executor[];
      readonly steps: readonly Step[];
      readonly afterMs: number;
    }) => void,
  ): void {
    fc.assert(
      fc.property(world, ({ phase, executors: there, afterMs }) => {
        const record = phase === undefined ? undefined : aRecord({ phase });
        const seen = { executors: there, unreadable: [] };
        const known = record === undefined ? {} : { record };
        holds({
          record,
          executors: there,
          steps: nextSteps({ ...known, ...seen }, testStart + afterMs, defaultTimes),
          afterMs,
        });
      }),
      { numRuns: 2_000 },
    );
  }
  const lives = ({ state }: Executor) => state.phase !== "ended";
  const touched = (all: readonly Step[], name: string) =>
    all.some((step) => (step.do === "kill" || step.do === "delete") && step.executor === name);

  it("never touch a living executor of the current attempt of an assignment that is not over", () => {
    everywhere(({ record, executors: there, steps: taken }) => {
      if (record === undefined || record.phase.name === "finished") return;
      const attempt = currentAttempt(record);
      for (const one of there.filter(lives))
        if (attempt === undefined || one.name === executorName(assignment, attempt))
          assert.equal(touched(taken, one.name), false);
    });
  });

  it("never touch a living executor without a record, unless its task is known to be over", () => {
    everywhere(({ record, executors: there, steps: taken }) => {
      if (record !== undefined) return;
      for (const one of there.filter((each) => lives(each) && !each.metadata.terminal))
        assert.equal(touched(taken, one.name), false);
    });
  });

  it("give a slot back only when nothing lives", () => {
    everywhere(({ executors: there, steps: taken }) => {
      if (taken.some((step) => step.do === "release")) assert.equal(there.some(lives), false);
    });
  });

  it("forget only what is over and has no executor left", () => {
    everywhere(({ record, executors: there, steps: taken }) => {
      if (!taken.some((step) => step.do === "forget")) return;
      assert.equal(record?.phase.name, "finished");
      assert.deepEqual(there, []);
    });
  });

  it("fail a claimed one whose executor is not alive exactly once, and no other one that has a record", () => {
    everywhere(({ record, executors: there, steps: taken }) => {
      if (record === undefined) return;
      const attempt = currentAttempt(record);
      const current = there.find(
        (one) => attempt !== undefined && one.name === executorName(assignment, attempt),
      );
      const dead = record.phase.name === "claimed" && (current === undefined || !lives(current));
      assert.equal(taken.filter((step) => step.do === "fail").length, dead ? 1 : 0);
    });
  });

  it("leave nothing alone for ever: what is over has a step once the grace is over", () => {
    everywhere(({ record, steps: taken, afterMs }) => {
      if (record?.phase.name === "finished" && afterMs >= grace) assert.notDeepEqual(taken, []);
    });
  });
});
