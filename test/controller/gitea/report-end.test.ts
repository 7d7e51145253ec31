import assert from "node:assert/strict";
import { create } from "@bufbuild/protobuf";
import { beforeEach, describe, it } from "mocha";
import { createReportEnd } from "../../../controller/gitea/report-end.ts";
import { closeSteps } from "../../../controller/gitea/close-steps.ts";
import { GiteaError } from "../../../controller/protocol/errors.ts";
import {
  Result,
  type StepState,
  UpdateLogResponseSchema,
  UpdateTaskRequestSchema,
  UpdateTaskResponseSchema,
} from "../../../proto/gen/runner/v1/runner_pb.ts";
import { createFakeClock, type FakeClock } from "../../fakes/fake-clock.ts";
import { testStart } from "../../support/builders.ts";

type Options = Parameters<typeof createReportEnd>[0];

const never = new AbortController().signal;
const end = { taskId: 42n, result: "failure", reason: ["It died.", "Ask an operator."], steps: [] } as const;

/** Gitea's log and result of one task; `log` and `state` fail or hang as long as they are set. */
function createGitea() {
  const told: Result[] = [];
  let rows = 5n;
  const gitea = {
    told,
    questions: 0,
    /** The steps with which it was asked what it shows. */
    asked: [] as (readonly StepState[])[],
    log: undefined as Error | "hangs" | undefined,
    state: undefined as Error | undefined,
    shows: undefined as Result | undefined,
    rows: () => rows,
    updateLog: async ({ index = 0n, rows: more = [] }: Parameters<Options["gitea"]["updateLog"]>[0]) => {
      await Promise.resolve();
      if (gitea.log === "hangs") await new Promise(() => undefined);
      else if (gitea.log !== undefined) throw gitea.log;
      if (more.length === 0) gitea.questions++;
      if (index <= rows && index + BigInt(more.length) > rows) rows = index + BigInt(more.length);
      return create(UpdateLogResponseSchema, { ackIndex: rows });
    },
    updateTask: async (request: Parameters<Options["gitea"]["updateTask"]>[0]) => {
      await Promise.resolve();
      if (gitea.state !== undefined) throw gitea.state;
      const { state } = create(UpdateTaskRequestSchema, request);
      const result = state?.result ?? Result.UNSPECIFIED;
      if (result !== Result.UNSPECIFIED) told.push(result);
      else gitea.asked.push(state?.steps ?? []);
      return create(UpdateTaskResponseSchema, {
        state: { id: 42n, result: gitea.shows ?? state?.result ?? 0 },
      });
    },
  };
  return gitea;
}

describe("the end that we report for an executor", () => {
  let gitea: ReturnType<typeof createGitea>;
  let clock: FakeClock;
  let report: ReturnType<typeof createReportEnd>;
  beforeEach(() => {
    gitea = createGitea();
    clock = createFakeClock();
    report = createReportEnd({ gitea, clock });
  });

  for (const fault of ["transient", "log-trouble", "unregistered"] as const)
    it(`waits two minutes for a log that takes no rows (${fault}), then the result goes without them`, async () => {
      gitea.log = new GiteaError(fault, "no");
      for (let waited = 0; waited < 120_000; waited += 20_000) {
        await assert.rejects(report(end, never), { fault });
        await clock.step(20_000);
      }
      assert.deepEqual(gitea.told, []);
      assert.equal(await report(end, never), "failure");
      assert.deepEqual(gitea.told, [Result.FAILURE]);
    });

  it("waits ten seconds at a time for a log that does not answer", async () => {
    gitea.log = "hangs";
    for (let tries = 0; tries < 11; tries++) {
      const tried = assert.rejects(report(end, never), { name: "TimeoutError" });
      await clock.step(10_000);
      await tried;
    }
    const last = report(end, never);
    await clock.step(10_000);
    assert.equal(await last, "failure");
  });

  it("brings its rows though it took more than two minutes, when it was all of Gitea that was away", async () => {
    gitea.log = new GiteaError("transient", "no answer");
    gitea.state = gitea.log;
    for (let minutes = 0; minutes < 10; minutes++) {
      await assert.rejects(report(end, never));
      await clock.step(60_000);
    }
    [gitea.log, gitea.state] = [undefined, undefined];
    assert.equal(await report(end, never), "failure");
    assert.equal(gitea.rows(), 7n);
  });

  it("waits no longer for its rows because the clock was set back", async () => {
    gitea.log = new GiteaError("transient", "no");
    let now = testStart;
    const tried = createReportEnd({ gitea, clock: { ...clock, now: () => now } });
    await assert.rejects(tried(end, never));
    now -= 3_600_000;
    await assert.rejects(tried(end, never));
    now += 120_000;
    assert.equal(await tried(end, never), "failure");
  });

  it("writes its rows where the first try began, so that they are there once", async () => {
    gitea.state = new GiteaError("transient", "no answer");
    for (let tries = 0; tries < 3; tries++) await assert.rejects(report(end, never));
    gitea.state = undefined;
    assert.equal(await report(end, never), "failure");
    assert.deepEqual([gitea.rows(), gitea.questions], [7n, 1]);
  });

  it("is not told to a Gitea that shows another one already, and no row follows that one", async () => {
    gitea.shows = Result.SUCCESS;
    const steps = [{ id: 0, result: "success", logIndex: 0, logLength: 2 }] as const;
    assert.equal(await report({ ...end, steps }, never), "success");
    assert.deepEqual([gitea.told, gitea.rows()], [[], 5n]);
    // Without its steps Gitea would set one that is over back to running.
    assert.deepEqual(
      gitea.asked.map((asked) => asked.map(({ id, result }) => [id, result])),
      [[[0n, Result.SUCCESS]]],
    );
  });

  it("is told to a Gitea that wants the task to end, and waits for our word", async () => {
    gitea.shows = Result.CANCELLED;
    assert.equal(await report(end, never), "cancelled");
    assert.deepEqual(gitea.told, [Result.FAILURE]);
  });

  it("has no memory of a task that is over", async () => {
    await report(end, never);
    await report(end, never);
    assert.equal(gitea.questions, 2);
  });

  it("is told again when Gitea answers without a result", async () => {
    gitea.shows = Result.UNSPECIFIED;
    await assert.rejects(report(end, never), { fault: "transient" });
    gitea.shows = Result.CANCELLED;
    assert.equal(await report(end, never), "cancelled");
  });

  it("is of no use to a Gitea that does not know the task, whichever call it says so to", async () => {
    for (const where of ["log", "state"] as const) {
      gitea = createGitea();
      gitea[where] = new GiteaError("gone", "no such task");
      assert.equal(await createReportEnd({ gitea, clock })(end, never), "gone");
    }
  });

  it("ends with its signal, and tells no result then", async () => {
    gitea.log = "hangs";
    const stop = new AbortController();
    await clock.step(200_000);
    const reported = report(end, stop.signal);
    stop.abort(new Error("enough"));
    await assert.rejects(reported, /enough/);
    assert.deepEqual(gitea.told, []);
  });
});

describe("the steps of a task that we end", () => {
  const startedAt = "2026-01-01T00:00:00.000Z";
  const stoppedAt = new Date(testStart).toISOString();

  it("stay as they were when they were over, get the result when they ran, and are skipped otherwise", () => {
    const over = {
      id: 0,
      result: "success",
      startedAt,
      stoppedAt: startedAt,
      logIndex: 0,
      logLength: 3,
    } as const;
    const running = { id: 1, startedAt, logIndex: 3, logLength: 1 };
    const open = { id: 2, logIndex: 0, logLength: 0 };
    assert.deepEqual(closeSteps([over, running, open], "failure", 9n, testStart), [
      over,
      { ...running, result: "failure", stoppedAt, logLength: 6 },
      { ...open, result: "skipped" },
    ]);
  });

  it("own the rows that they said when nobody knows how many there are", () => {
    const [step] = closeSteps(
      [{ id: 1, startedAt, logIndex: 3, logLength: 1 }],
      "cancelled",
      undefined,
      testStart,
    );
    assert.deepEqual([step?.result, step?.logLength], ["cancelled", 1]);
  });

  it("are closed for as many as a job may have when none was ever reported", () => {
    const steps = closeSteps([], "failure", 0n, testStart);
    assert.equal(steps.length, 256);
    assert.ok(steps.every(({ result }, index) => result === "skipped" && steps[index]?.id === index));
  });
});
