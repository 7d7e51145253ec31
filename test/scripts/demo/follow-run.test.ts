import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { followRun, stuckJobs } from "../../../scripts/demo/follow-run.ts";
import { beginStory, hearLine, type GiteaJob } from "../../../scripts/demo/story.ts";
import { createStoryKeeper } from "../../../scripts/demo/story-keeper.ts";
import { createFakeClock } from "../../fakes/fake-clock.ts";
import { aJob, aStory, pushed, runningStep, theWayOf } from "./builders.ts";

const minute = 60_000;
const done = aJob({ status: "completed", conclusion: "success" });

/** A run whose jobs, or whose failures, Gitea tells one after the other; the last answer is told again and again. */
function follow(...answers: readonly (readonly GiteaJob[] | Error)[]) {
  const clock = createFakeClock(pushed);
  const keeper = createStoryKeeper(beginStory(pushed), () => undefined);
  const stop = new AbortController();
  const left = [...answers];
  let asked = 0;
  const calls: string[] = [];
  const read = {
    jobs: async () => {
      calls.push("jobs");
      const answer = left.length > 1 ? left.shift() : left[0];
      asked++;
      if (answer instanceof Error) throw answer;
      return answer ?? [];
    },
    tasks: async () => {
      calls.push("tasks");
      return [{ id: 1, name: "build" }];
    },
  };
  const following = followRun(keeper, read, clock, stop.signal);
  const outcome = following.then(
    () => "over",
    (error: unknown) => (error as Error).message,
  );
  return { clock, keeper, stop, calls, outcome, asked: () => asked };
}

describe("following a run", () => {
  it("asks until Gitea says that every job is over", async () => {
    const run = follow([], [aJob()], [aJob({ status: "in_progress" })], [done]);
    for (let poll = 0; poll < 4; poll++) await run.clock.step(250);
    assert.equal(await run.outcome, "over");
    assert.equal(run.asked(), 4);
    assert.equal(run.keeper.get().over, true);
    assert.equal(run.keeper.get().jobs[0]?.conclusion, "success");
  });

  it("asks which task is which job only when there is one without a name", async () => {
    const run = follow([aJob()]);
    await run.clock.step(10);
    for (const line of theWayOf(1, [5])) run.keeper.change((story) => hearLine(story, line, pushed));
    await run.clock.step(250);
    await run.clock.step(250);
    assert.deepEqual(run.calls, ["jobs", "jobs", "tasks", "jobs"]);
    assert.equal(run.keeper.get().names.get("gitea-task-1"), "build");
    run.stop.abort(new Error("stopped"));
    assert.equal(await run.outcome, "stopped");
  });

  it("lives with a Gitea that does not answer for a while, but not for longer than 30 s", async () => {
    const short = follow(new Error("away"), new Error("away"), [done]);
    await short.clock.step(1_000);
    assert.equal(await short.outcome, "over");
    const long = follow(new Error("away"));
    await long.clock.step(29_000);
    assert.ok(long.asked() > 100);
    await long.clock.step(2_000);
    assert.equal(await long.outcome, "away");
  });

  it("asks less often the more jobs there are", async () => {
    const run = follow(Array.from({ length: 100 }, (_, id) => aJob({ id, name: `job-${id}` })));
    await run.clock.step(10);
    assert.deepEqual(run.clock.pending(), [690]);
    run.stop.abort(new Error("stopped"));
    await run.outcome;
  });

  it("gives up, and says where each job is, when none has moved for three minutes", async () => {
    const run = follow([aJob(), aJob({ id: 2, name: "check", status: "waiting" })]);
    await run.clock.step(2 * minute);
    await run.clock.step(1 * minute + 1_000);
    assert.equal(
      await run.outcome,
      "nothing has moved for 180 s: build is waiting in Gitea, check is waiting for the jobs that it needs",
    );
  });
});

describe("a run that is stuck", () => {
  const running = aJob({ status: "in_progress", steps: [runningStep] });

  it("may take longer while a step runs", () => {
    const story = aStory([0, [running]]);
    assert.equal(stuckJobs(story, pushed + 19 * minute), undefined);
    assert.match(stuckJobs(story, pushed + 21 * minute) ?? "", /1260 s: build is running$/);
  });

  it("is named with five of its jobs", () => {
    const jobs = Array.from({ length: 7 }, (_, id) => aJob({ id, name: `job-${id}` }));
    const text = stuckJobs(aStory([0, [...jobs, { ...done, id: 99 }]]), pushed + 4 * minute) ?? "";
    assert.match(text, /job-4 is waiting in Gitea, and 2 more$/);
  });

  for (const [stages, where] of [
    [1, "queued"],
    [2, "waiting for the identity of its executor"],
    [3, "waiting for the claim of its executor"],
    [4, "claimed, without a step that has begun"],
  ] as const)
    it(`says that a job is ${where}`, () => {
      const lines = theWayOf(1, [10, 20, 30, 40].slice(0, stages));
      const story = aStory([0, [aJob()]], ...lines, { names: { 1: "build" } });
      assert.ok(stuckJobs(story, pushed + 4 * minute)?.endsWith(`build is ${where}`));
    });
});
