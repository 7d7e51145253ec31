import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { executorName } from "../../../controller/assignment/executor-metadata.ts";
import { failureFor } from "../../../controller/assignment/failure.ts";
import type { FailureReason } from "../../../controller/assignment/failure-reasons.ts";
import { next } from "../../../controller/assignment/next.ts";
import {
  type AssignmentRecord,
  claimOf,
  isCurrentAttempt,
  isUnclaimed,
  phaseNames,
} from "../../../controller/assignment/record.ts";
import { defaultTimes as times } from "../../../controller/assignment/times.ts";
import type { Executor, ExecutorState } from "../../../controller/backends/backend.ts";
import { nextSteps } from "../../../controller/lifecycle/next-step.ts";
import type { Seen } from "../../../controller/lifecycle/seen.ts";
import type { Step } from "../../../controller/lifecycle/step.ts";
import { anAssignment, anAttempt, anExecutorMetadata, aRecord, testStart } from "../../support/builders.ts";
import { aClaim, aReport, inPhase } from "../../support/phases.ts";

const assignment = anAssignment();
const nameOf = (number: number) => executorName(assignment, anAttempt({ number }));

type Looks = "starting" | "running" | "ended" | "terminal" | "terminal ended";

function executor(number: number, looks: Looks, cause?: FailureReason): Executor {
  const terminal = looks.startsWith("terminal");
  const state: ExecutorState =
    looks === "ended" || looks === "terminal ended"
      ? { phase: "ended", reason: "exited with code 1", ...(cause === undefined ? {} : { cause }) }
      : { phase: looks === "starting" ? "starting" : "running" };
  return {
    name: nameOf(number),
    metadata: anExecutorMetadata({ attempt: anAttempt({ number }), terminal }),
    state,
    createdAt: testStart,
  };
}

type World = Partial<Omit<Seen, "there">> & {
  readonly executors?: readonly Executor[];
  readonly unreadable?: readonly string[];
  /** The backend does not answer. */
  readonly silent?: boolean;
};

function seen(record: AssignmentRecord | undefined, world: World = {}): Seen {
  const { executors = [], unreadable = [], silent = false, ...rest } = world;
  return {
    ...(record === undefined ? {} : { record }),
    ...(silent ? {} : { there: { executors, unreadable } }),
    settled: true,
    heardAt: testStart,
    lingering: new Set(),
    hasSlot: true,
    ...rest,
  };
}

function asText(step: Step): string {
  const attempt = "executor" in step && typeof step.executor === "string" ? step.executor : "";
  const number = [1, 2, 3].find((one) => nameOf(one) === attempt);
  if (step.do === "apply")
    return "failure" in step.event ? `${step.event.type} ${step.event.failure.reason}` : step.event.type;
  if (step.do === "adopt") return `adopt ${step.executor.metadata.attempt.number}`;
  if (step.do === "delete") return `delete ${number}${step.messageFirst ? " after its message" : ""}`;
  return `${step.do} ${number ?? ""}`.trim();
}

function steps(record: AssignmentRecord | undefined, world: World = {}, afterMs = 0): readonly string[] {
  const heardAt = world.heardAt ?? testStart + afterMs;
  return nextSteps(seen(record, { ...world, heardAt }), testStart + afterMs, times).map(asText);
}

const unclaimed = (name: "ending" | "finished") => {
  const record = inPhase(name);
  const { phase } = record;
  if (phase.name !== "ending" && phase.name !== "finished") throw new Error("no end");
  const { claim: _, ...rest } = phase;
  return { ...record, phase: rest };
};
const reported = inPhase("ending", { end: { by: "executor", report: aReport } });
const gone = inPhase("ending", { end: { by: "controller", result: "failure", executorGone: true } });
const { terminalGraceMs, quietMs, cancelGraceMs, resultGraceMs, absentMs } = times;

describe("the next steps of an assignment", () => {
  const cases: readonly (readonly [
    string,
    AssignmentRecord | undefined,
    World,
    number,
    readonly string[],
  ])[] = [
    ["queued, nothing there", inPhase("queued"), {}, 0, []],
    [
      "queued, one that runs and whose record was lost",
      inPhase("queued"),
      { executors: [executor(2, "running"), executor(1, "ended")] },
      0,
      ["executor_adopted"],
    ],
    [
      "queued, one that has ended and whose record was lost: it may have claimed",
      inPhase("queued"),
      { executors: [executor(1, "ended")] },
      0,
      ["executor_adopted"],
    ],
    [
      "queued, one whose task is over",
      inPhase("queued"),
      { executors: [executor(1, "terminal")] },
      0,
      ["delete 1"],
    ],
    [
      "queued again, the lost attempt's lives",
      aRecord({ attempts: { begun: 1, burnt: 1 } }),
      { executors: [executor(1, "running")] },
      0,
      ["delete 1"],
    ],
    [
      "queued again, one of a later attempt: the record is an old one",
      aRecord({ attempts: { begun: 1, burnt: 1 } }),
      { executors: [executor(1, "ended"), executor(2, "running")] },
      0,
      ["executor_adopted"],
    ],
    [
      "queued again, one of a later attempt whose task is over",
      aRecord({ attempts: { begun: 1, burnt: 1 } }),
      { executors: [executor(2, "terminal")] },
      0,
      ["delete 2"],
    ],
    [
      "starting, one of a later attempt: the record is an old one",
      inPhase("starting"),
      { executors: [executor(1, "ended"), executor(2, "ended")] },
      0,
      ["executor_adopted"],
    ],
    ["queued for too long", inPhase("queued"), {}, times.endlessMs, ["failed no_time_left"]],
    ["starting, not created yet", inPhase("starting"), {}, 0, []],
    ["starting, died: the worker's", inPhase("starting"), { executors: [executor(1, "ended")] }, 0, []],
    [
      "starting, the attempt before it still lives",
      inPhase("starting", { attempt: anAttempt({ number: 2 }) }),
      { executors: [executor(1, "running"), executor(2, "running")] },
      0,
      ["delete 1"],
    ],
    ...(["queued", "starting", "adopted", "claimed"] as const).map(
      (name) =>
        [
          `${name}, its runner unknown to Gitea for ten minutes`,
          inPhase(name, name === "queued" ? {} : { deadlineAt: Infinity }),
          { executors: name === "queued" ? [] : [executor(1, "running")], unregisteredSince: testStart },
          times.unregisteredMs,
          ["failed unregistered"],
        ] as const,
    ),
    [
      "claimed, its runner unknown to Gitea for a little less",
      inPhase("claimed"),
      { executors: [executor(1, "running")], unregisteredSince: testStart },
      times.unregisteredMs - 1,
      [],
    ],
    ["starting past its deadline", inPhase("starting"), {}, 3_600_000, ["failed no_time_left"]],
    ["claimed and running", inPhase("claimed"), { executors: [executor(1, "running")] }, 1_000_000, []],
    ["claimed and ended", inPhase("claimed"), { executors: [executor(1, "ended")] }, 0, ["failed no_result"]],
    [
      "claimed and killed for its memory",
      inPhase("claimed"),
      { executors: [executor(1, "ended", "oom")] },
      0,
      ["failed oom"],
    ],
    [
      "claimed, and dead of what its backend calls a start failure",
      inPhase("claimed"),
      { executors: [executor(1, "ended", "start_oom")] },
      0,
      ["failed oom"],
    ],
    [
      "claimed, ended unseen, and silent",
      inPhase("claimed"),
      { executors: [executor(1, "ended", "vanished")], heardAt: testStart },
      absentMs,
      ["failed vanished"],
    ],
    [
      "claimed, ended unseen, but heard of since",
      inPhase("claimed"),
      { executors: [executor(1, "ended", "vanished")], heardAt: testStart + 1 },
      absentMs,
      [],
    ],
    ["claimed and missing in one list", inPhase("claimed"), {}, absentMs, []],
    [
      "claimed and missing, not for long",
      inPhase("claimed"),
      { absentSince: testStart, heardAt: testStart },
      absentMs - 1,
      [],
    ],
    [
      "claimed and gone",
      inPhase("claimed"),
      { absentSince: testStart, heardAt: testStart },
      absentMs,
      ["failed vanished"],
    ],
    [
      "claimed and missing, and heard of since",
      inPhase("claimed"),
      { absentSince: testStart, heardAt: testStart + 1 },
      absentMs,
      [],
    ],
    [
      "claimed and missing in a list that is older than the claim",
      inPhase("claimed"),
      { absentSince: testStart, heardAt: testStart, settled: false },
      absentMs,
      [],
    ],
    [
      "claimed, its backend away, and silent",
      inPhase("claimed"),
      { silent: true, heardAt: testStart },
      times.silenceMs,
      ["failed silent"],
    ],
    [
      "claimed, an earlier attempt's lives",
      inPhase("claimed", { attempt: anAttempt({ number: 2 }) }),
      { executors: [executor(1, "running"), executor(2, "running")] },
      0,
      ["delete 1"],
    ],
    ["adopted and running", inPhase("adopted"), { executors: [executor(1, "running")] }, 1_000_000, []],
    [
      "adopted and ended",
      inPhase("adopted"),
      { executors: [executor(1, "ended")] },
      0,
      ["failed record_lost"],
    ],
    [
      "adopted and killed for its memory",
      inPhase("adopted"),
      { executors: [executor(1, "ended", "oom")] },
      0,
      ["failed oom"],
    ],
    [
      "adopted and gone",
      inPhase("adopted"),
      { absentSince: testStart, heardAt: testStart },
      absentMs,
      ["failed record_lost"],
    ],
    [
      "ending with its result, winding up",
      reported,
      { executors: [executor(1, "running")] },
      resultGraceMs - 1,
      [],
    ],
    [
      "ending with its result, too long",
      reported,
      { executors: [executor(1, "running")] },
      resultGraceMs,
      ["kill 1"],
    ],
    [
      "ending with its result, ended: kept until Gitea knows",
      reported,
      { executors: [executor(1, "ended")] },
      0,
      ["release"],
    ],
    ["ending by us, alive", inPhase("ending"), { executors: [executor(1, "running")] }, 0, ["kill 1"]],
    [
      "ending by us, ended",
      inPhase("ending"),
      { executors: [executor(1, "ended")] },
      0,
      ["executor_gone", "release"],
    ],
    ["ending by us, gone", inPhase("ending"), {}, 0, ["executor_gone", "release"]],
    ["ending by us, the list is older", inPhase("ending"), { settled: false }, 0, []],
    ["ending by us, unreadable", inPhase("ending"), { unreadable: [nameOf(1)] }, 0, []],
    ["ending by us, its backend away", inPhase("ending"), { silent: true }, terminalGraceMs - 1, []],
    [
      "ending by us, its backend away for long",
      inPhase("ending"),
      { silent: true },
      terminalGraceMs,
      ["executor_gone"],
    ],
    [
      "ending by us, and it cannot be killed",
      inPhase("ending"),
      { executors: [executor(1, "running")] },
      terminalGraceMs,
      ["executor_gone", "kill 1"],
    ],
    [
      "ending by us, and it lingers",
      gone,
      { executors: [executor(1, "running")], lingering: new Set([nameOf(1)]) },
      0,
      ["kill 1", "release"],
    ],
    ["ending before the claim, not there: it may still come", unclaimed("ending"), {}, 0, ["executor_gone"]],
    [
      "ending before the claim, not there for long",
      unclaimed("ending"),
      {},
      terminalGraceMs,
      ["executor_gone", "release"],
    ],
    ["ending, Gitea away for a day", gone, { hasSlot: false }, times.reportGiveUpMs, ["report_given_up"]],
    ["ending without an attempt", aRecord({ phase: withoutAttempt("ending") }), {}, 0, ["release"]],
    [
      "finished, winding up",
      inPhase("finished"),
      { executors: [executor(1, "terminal")] },
      terminalGraceMs - 1,
      [],
    ],
    ["finished, not marked", inPhase("finished"), { executors: [executor(1, "running")] }, 0, ["mark 1"]],
    [
      "finished, too long",
      inPhase("finished"),
      { executors: [executor(1, "terminal")] },
      terminalGraceMs,
      ["kill 1"],
    ],
    [
      "finished by Gitea, its last steps run",
      inPhase("finished", { by: "gitea" }),
      { executors: [executor(1, "terminal")] },
      cancelGraceMs - 1,
      [],
    ],
    [
      "finished by Gitea, too long",
      inPhase("finished", { by: "gitea" }),
      { executors: [executor(1, "terminal")] },
      cancelGraceMs,
      ["kill 1"],
    ],
    [
      "finished and ended",
      inPhase("finished"),
      { executors: [executor(1, "ended")] },
      0,
      ["release", "mark 1", "delete 1 after its message"],
    ],
    ["finished and gone", inPhase("finished"), {}, 0, ["release", "forget"]],
    ["finished, the list is older", inPhase("finished"), { settled: false }, 0, []],
    ["finished, unreadable", inPhase("finished"), { unreadable: [nameOf(1)] }, 0, []],
    [
      "finished, attempts before it are unreadable",
      inPhase("finished", { attempt: anAttempt({ number: 2 }) }),
      { unreadable: [nameOf(1), nameOf(3), `${nameOf(1)}x`, "gitea-task-420-1-00000000"] },
      terminalGraceMs,
      ["release", "delete 1"],
    ],
    [
      "finished, unreadable, within its grace",
      inPhase("finished"),
      { unreadable: [nameOf(1)] },
      terminalGraceMs - 1,
      [],
    ],
    [
      "finished, unreadable, too long",
      inPhase("finished"),
      { unreadable: [nameOf(1)] },
      terminalGraceMs,
      ["delete 1 after its message"],
    ],
    [
      "finished by Gitea, unreadable",
      inPhase("finished", { by: "gitea" }),
      { unreadable: [nameOf(1)] },
      cancelGraceMs - 1,
      [],
    ],
    [
      "finished by Gitea, unreadable, too long",
      inPhase("finished", { by: "gitea" }),
      { unreadable: [nameOf(1)] },
      cancelGraceMs,
      ["delete 1 after its message"],
    ],
    [
      "finished, unreadable and quiet, where no end is seen",
      inPhase("finished"),
      { unreadable: [nameOf(1)], endsUnseen: true, heardAt: testStart },
      quietMs,
      ["delete 1 after its message"],
    ],
    [
      "finished before the claim, unreadable",
      unclaimed("finished"),
      { unreadable: [nameOf(1)] },
      0,
      ["delete 1 after its message"],
    ],
    [
      "finished, another's unreadable",
      inPhase("finished"),
      { unreadable: [nameOf(2)] },
      0,
      ["release", "forget"],
    ],
    ["finished, its backend away", inPhase("finished"), { silent: true }, 1_000_000, []],
    [
      "finished before an attempt",
      aRecord({ phase: withoutAttempt("finished") }),
      {},
      0,
      ["release", "forget"],
    ],
    [
      "finished before the claim",
      unclaimed("finished"),
      { executors: [executor(1, "running")] },
      0,
      ["kill 1", "mark 1"],
    ],
    ["finished before the claim, and it may still come", unclaimed("finished"), {}, terminalGraceMs - 1, []],
    [
      "finished before the claim, it came never",
      unclaimed("finished"),
      {},
      terminalGraceMs,
      ["release", "forget"],
    ],
    [
      "finished, a lost attempt's still there",
      inPhase("finished", { attempt: anAttempt({ number: 2 }) }),
      { executors: [executor(1, "running")], hasSlot: false },
      0,
      ["delete 1"],
    ],
    [
      "finished, and it lingers",
      inPhase("finished"),
      { executors: [executor(1, "terminal")], lingering: new Set([nameOf(1)]) },
      terminalGraceMs,
      ["release", "kill 1", "delete 1 after its message"],
    ],
    [
      "finished, and quiet, where its end is seen",
      inPhase("finished"),
      { executors: [executor(1, "running")] },
      quietMs,
      ["mark 1"],
    ],
    [
      "finished, and not quiet for long, where its end is not seen",
      inPhase("finished"),
      { executors: [executor(1, "running")], endsUnseen: true, heardAt: testStart + 1 },
      quietMs,
      ["mark 1"],
    ],
    [
      "finished, and quiet for long, where its end is not seen",
      inPhase("finished"),
      { executors: [executor(1, "running")], endsUnseen: true, heardAt: testStart + 1 },
      quietMs + 1,
      ["kill 1", "mark 1"],
    ],
    [
      "without a record, running: counts as claimed",
      undefined,
      { executors: [executor(1, "running")] },
      0,
      ["adopt 1"],
    ],
    ["without a record, ended", undefined, { executors: [executor(1, "ended")] }, 0, ["adopt 1"]],
    [
      "without a record, two: the one that lives",
      undefined,
      { executors: [executor(1, "running"), executor(2, "ended")] },
      0,
      ["adopt 1"],
    ],
    [
      "without a record, its task over",
      undefined,
      { executors: [executor(1, "terminal ended"), executor(2, "terminal")] },
      0,
      ["delete 1", "delete 2"],
    ],
    ["without a record, its backend away", undefined, { silent: true }, 0, []],
  ];
  for (const [title, record, world, afterMs, expected] of cases)
    it(`${title}: ${expected.join(", ") || "nothing"}`, () => {
      assert.deepEqual(steps(record, world, afterMs), expected);
    });

  it("says what was seen, and takes what follows a cancel for cancelled", () => {
    const world = seen(inPhase("claimed", { cancelledAt: testStart }), { executors: [executor(1, "ended")] });
    assert.deepEqual(nextSteps(world, testStart, times), [
      {
        do: "apply",
        event: {
          type: "failed",
          failure: failureFor("no_result", "exited with code 1"),
          result: "cancelled",
        },
      },
    ]);
  });

  it("says why an executor is killed", () => {
    const [step] = nextSteps(
      seen(inPhase("ending"), { executors: [executor(1, "running")] }),
      testStart,
      times,
    );
    assert.ok(step?.do === "kill");
    assert.match(step.reason, /silent/);
  });

  const number = fc.integer({ min: 1, max: 3 });
  const records: fc.Arbitrary<AssignmentRecord | undefined> = fc.oneof(
    fc.constant(undefined),
    fc.constantFrom(...phaseNames).map((name) => inPhase(name)),
    fc.constantFrom(unclaimed("ending"), unclaimed("finished"), reported, gone),
    fc
      .tuple(fc.constantFrom("starting" as const, "claimed" as const, "adopted" as const), number)
      .map(([name, n]) => inPhase(name, { attempt: anAttempt({ number: n }) })),
    fc.constant(aRecord({ attempts: { begun: 2, burnt: 2 } })),
  );
  const executors = fc
    .uniqueArray(number, { maxLength: 3 })
    .chain((numbers) =>
      fc.tuple(
        ...numbers.map((each) =>
          fc
            .constantFrom<Looks>("starting", "running", "ended", "terminal", "terminal ended")
            .map((looks) => executor(each, looks)),
        ),
      ),
    );
  const world = fc.record({
    record: records,
    executors,
    afterMs: fc.integer({ min: 0, max: 400_000 }),
    silent: fc.boolean(),
    settled: fc.boolean(),
    hasSlot: fc.boolean(),
    heard: fc.boolean(),
    absent: fc.boolean(),
    lingers: fc.boolean(),
  });

  function everywhere(
    holds: (what: {
      readonly record: AssignmentRecord | undefined;
      readonly executors: readonly Executor[];
      readonly steps: readonly Step[];
      readonly seen: Seen;
      readonly now: number;
    }) => void,
  ): void {
    fc.assert(
      fc.property(world, ({ record, afterMs, heard, absent, lingers, ...rest }) => {
        const now = testStart + afterMs;
        const lingering = new Set(lingers ? rest.executors.map(({ name }) => name) : []);
        const looked = seen(record, {
          ...rest,
          heardAt: heard ? now : testStart,
          lingering,
          ...(absent ? { absentSince: testStart } : {}),
        });
        const there = rest.silent ? [] : rest.executors;
        holds({ record, executors: there, steps: nextSteps(looked, now, times), seen: looked, now });
      }),
      { numRuns: 5_000 },
    );
  }
  const lives = ({ state }: Executor) => state.phase !== "ended";
  const isMine = (record: AssignmentRecord, one: Executor) => isCurrentAttempt(record, one.metadata.attempt);
  const isUnknown = (record: AssignmentRecord, { metadata }: Executor) =>
    isUnclaimed(record) && metadata.attempt.number > record.attempts.begun && !metadata.terminal;
  const touched = (all: readonly Step[], { name }: Executor) =>
    all.some((step) => (step.do === "kill" || step.do === "delete") && step.executor === name);

  it("never touch a living executor of the current attempt before the end is decided", () => {
    everywhere(({ record, executors: there, steps: taken }) => {
      if (record === undefined || record.phase.name === "ending" || record.phase.name === "finished") return;
      for (const one of there.filter(lives))
        if (isMine(record, one)) assert.equal(touched(taken, one), false);
    });
  });

  it("never touch an executor without a record whose task is not known to be over", () => {
    everywhere(({ record, executors: there, steps: taken }) => {
      if (record !== undefined) return;
      for (const one of there) if (!one.metadata.terminal) assert.equal(touched(taken, one), false);
    });
  });

  it("end each executor of an attempt that is lost, at once", () => {
    everywhere(({ record, executors: there, steps: taken }) => {
      if (record === undefined || there.some((one) => isUnknown(record, one))) return;
      for (const one of there) if (!isMine(record, one)) assert.equal(touched(taken, one), true);
    });
  });

  it("touch none while there is one of a later attempt than the record of a waiting task knows of", () => {
    everywhere(({ record, executors: there, steps: taken }) => {
      if (record === undefined || !there.some((one) => isUnknown(record, one))) return;
      assert.deepEqual(taken.map(asText), ["executor_adopted"]);
    });
  });

  it("delete the current attempt's executor only when it is marked, and has ended or lingers", () => {
    everywhere(({ record, executors: there, steps: taken, seen: { lingering } }) => {
      for (const [index, step] of taken.entries()) {
        if (step.do !== "delete" || record === undefined) continue;
        const one = there.find(({ name }) => name === step.executor);
        assert.ok(one);
        if (!isMine(record, one)) continue;
        assert.equal(record.phase.name, "finished");
        assert.ok(!lives(one) || lingering.has(one.name));
        assert.equal(step.messageFirst, true);
        const marked = taken
          .slice(0, index)
          .some((other) => other.do === "mark" && other.executor === one.name);
        assert.ok(one.metadata.terminal || marked);
      }
    });
  });

  it("give a slot back only when nothing lives, lingering ones aside, and only after the end", () => {
    everywhere(({ record, executors: there, steps: taken, seen: { lingering, hasSlot } }) => {
      if (!taken.some((step) => step.do === "release")) return;
      assert.ok(hasSlot && (record?.phase.name === "ending" || record?.phase.name === "finished"));
      assert.equal(
        there.some((one) => lives(one) && !lingering.has(one.name)),
        false,
      );
    });
  });

  it("forget only what is over and has no executor left, by a list that is not older than that", () => {
    everywhere(({ record, steps: taken, seen: { there, settled } }) => {
      if (!taken.some((step) => step.do === "forget")) return;
      assert.equal(record?.phase.name, "finished");
      assert.deepEqual(there?.executors, []);
      assert.equal(settled, true);
    });
  });

  it("apply one event at most, and one that moves the record", () => {
    everywhere(({ record, steps: taken, now }) => {
      const events = taken.flatMap((step) => (step.do === "apply" ? [step.event] : []));
      assert.ok(events.length <= 1);
      const [event] = events;
      if (event === undefined) return;
      assert.ok(record);
      assert.equal(next(record, event, now).moved, true, event.type);
    });
  });

  it("leave nothing alone for ever: what is over has a step once its grace is over", () => {
    everywhere(({ record, steps: taken, seen: { there, settled }, now }) => {
      if (record?.phase.name !== "finished" || there === undefined || !settled) return;
      if (now < testStart + Math.max(terminalGraceMs, cancelGraceMs)) return;
      if (there.executors.some((one) => isMine(record, one) && !lives(one)) || claimOf(record) === aClaim)
        assert.notDeepEqual(taken, []);
    });
  });
});

function withoutAttempt(name: "ending" | "finished"): AssignmentRecord["phase"] {
  return name === "ending"
    ? { name, end: { by: "controller", result: "cancelled", executorGone: true }, since: testStart }
    : { name, result: "cancelled", by: "gitea", at: testStart };
}
