import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { viewJobs } from "../../../scripts/demo/stages.ts";
import type { Story } from "../../../scripts/demo/story.ts";
import { aJob, aLine, aStory, pushed, runningStep, theWayOf } from "./builders.ts";

const named = { names: { 1: "build" } };

function viewAt(story: Story, after: number) {
  const [job] = viewJobs(story, pushed + after);
  assert.ok(job !== undefined);
  return job;
}

describe("where a job stands", () => {
  const created = [100, 200, 300, 400] as const;
  const cases: readonly (readonly [string, Story, number, string, readonly (number | undefined)[]])[] = [
    ["waits in Gitea since the push", aStory([50, [aJob()]]), 80, "waiting", [80]],
    [
      "is queued",
      aStory([50, [aJob()]], ...theWayOf(1, created.slice(0, 1)), named),
      150,
      "queued",
      [100, 50],
    ],
    [
      "has an executor",
      aStory([50, [aJob()]], ...theWayOf(1, created.slice(0, 2)), named),
      250,
      "executor",
      [100, 100, 50],
    ],
    [
      "has an identity",
      aStory([50, [aJob()]], ...theWayOf(1, created.slice(0, 3)), named),
      350,
      "identity",
      [100, 100, 100, 50],
    ],
    [
      "is claimed",
      aStory([50, [aJob()]], ...theWayOf(1, created), named, [420, [aJob({ status: "in_progress" })]]),
      450,
      "claimed",
      [100, 100, 100, 100, 50],
    ],
    [
      "runs as soon as Gitea shows a step that has begun",
      aStory([50, [aJob()]], ...theWayOf(1, created), named, [
        500,
        [aJob({ status: "in_progress", steps: [runningStep] })],
      ]),
      600,
      "running",
      [100, 100, 100, 100, 100, 100],
    ],
    [
      "is done when the controller heard of the result, though the poll came later",
      aStory(
        [50, [aJob()]],
        ...theWayOf(1, [...created, 900]),
        named,
        [500, [aJob({ status: "in_progress", steps: [runningStep] })]],
        [1_000, [aJob({ status: "completed", conclusion: "success" })]],
      ),
      5_000,
      "done",
      [100, 100, 100, 100, 100, 400],
    ],
    [
      "ran since its claim if it was over at the first look",
      aStory([50, [aJob()]], ...theWayOf(1, [...created, 900]), named, [
        1_000,
        [aJob({ status: "completed", conclusion: "success", steps: [{ name: "x", status: "completed" }] })],
      ]),
      5_000,
      "done",
      [100, 100, 100, 100, 0, 500],
    ],
    [
      "was not claimed later than it ran, whatever the log says",
      aStory(
        [50, [aJob()]],
        ...theWayOf(1, created.slice(0, 3)),
        named,
        [500, [aJob({ status: "in_progress", steps: [runningStep] })]],
        aLine(700, "assignment transition", { assignment: "gitea-task-1", event: "runner_claimed" }),
      ),
      800,
      "running",
      [100, 100, 100, 200, 0, 300],
    ],
  ];
  for (const [title, story, after, stage, spent] of cases)
    it(title, () => {
      const view = viewAt(story, after);
      assert.equal(view.stage, stage);
      assert.deepEqual(view.spent.slice(0, spent.length), spent);
      assert.ok(view.spent.slice(spent.length).every((time) => time === undefined));
      assert.equal(
        view.total,
        spent.reduce<number>((sum, time) => sum + (time ?? 0), 0),
      );
    });

  it("is not counted before the jobs are over that it needs", () => {
    const blocked = aStory([50, [aJob({ status: "waiting" })]]);
    assert.deepEqual([viewAt(blocked, 900).stage, viewAt(blocked, 900).total], ["blocked", undefined]);
    const free = aStory([50, [aJob({ status: "waiting" })]], [1_000, [aJob()]]);
    assert.deepEqual([viewAt(free, 1_300).stage, viewAt(free, 1_300).total], ["waiting", 300]);
  });

  it("is told apart from the other jobs of its matrix, which share key and backend", () => {
    const jobs = [aJob({ id: 1, name: "check (a)" }), aJob({ id: 2, name: "check (b)" })];
    const story = aStory([50, jobs], ...theWayOf(7, [100]), ...theWayOf(8, [100, 200]), {
      names: { 7: "check (b)", 8: "check (a)" },
    });
    assert.deepEqual(
      viewJobs(story, pushed + 300).map(({ name, stage }) => [name, stage]),
      [
        ["check (a)", "executor"],
        ["check (b)", "queued"],
      ],
    );
  });

  it("goes back with a further attempt, and tells how many there were", () => {
    const again = aLine(2_000, "executor transition", {
      assignment: "gitea-task-1",
      event: "executor_created",
      executor: "gitea-task-1-2-4567cdef",
    });
    const view = viewAt(aStory([50, [aJob()]], ...theWayOf(1, [100, 200, 300]), named, again), 2_500);
    assert.deepEqual([view.stage, view.attempts, view.spent[2]], ["executor", 2, 2_300]);
  });

  it("stays waiting while nobody knows which task it is", () => {
    assert.equal(viewAt(aStory([50, [aJob()]], ...theWayOf(1, [100, 200])), 300).stage, "waiting");
  });
});
