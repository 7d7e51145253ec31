import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { hasNamelessTasks, isOver } from "../../../scripts/demo/story.ts";
import { aJob, aLine, aStory, pushed, theWayOf } from "./builders.ts";

describe("the story of a run", () => {
  it("counts the executors of jobs that are not over, and the most at once", () => {
    const story = aStory(
      ...theWayOf(1, [100, 200, 300]),
      ...theWayOf(2, [100, 250, 300]),
      ...theWayOf(1, [100, 200, 300, 400, 500, 600]).slice(3),
      ...theWayOf(3, [700, 800]),
    );
    assert.deepEqual([...story.executors], ["gitea-task-2", "gitea-task-3"]);
    assert.equal(story.mostExecutors, 2);
    assert.deepEqual([...story.deleted], ["gitea-task-1-1-0123abcd"]);
  });

  it("counts an executor that is deleted before its job had a result", () => {
    const story = aStory(...theWayOf(1, [100, 200]), ...theWayOf(1, [0, 0, 0, 0, 0, 300]).slice(5));
    assert.equal(story.executors.size, 0);
    assert.equal(story.deleted.size, 1);
  });

  it("keeps the first of several claims that the log tells", () => {
    const again = aLine(900, "assignment transition", {
      assignment: "gitea-task-1",
      event: "runner_claimed",
    });
    const story = aStory(...theWayOf(1, [100, 200, 300, 400]), again);
    assert.equal(story.tasks.get("gitea-task-1")?.entered.claimed, pushed + 400);
  });

  it("knows when there is a task that Gitea has to be asked about", () => {
    assert.equal(hasNamelessTasks(aStory()), false);
    assert.equal(hasNamelessTasks(aStory(...theWayOf(1, [100]))), true);
    assert.equal(hasNamelessTasks(aStory(...theWayOf(1, [100]), { names: { 1: "build" } })), false);
  });

  it("is over when Gitea says so of every job, not before there is one", () => {
    assert.equal(isOver(aStory()), false);
    const done = aJob({ id: 1, status: "completed" });
    assert.equal(isOver(aStory([1, [done, aJob({ id: 2 })]])), false);
    assert.equal(isOver(aStory([1, [done]])), true);
  });

  it("moves with each stage, and not with anything else", () => {
    const waiting = aStory([50, [aJob()]], [500, [aJob()]], aLine(600, "declared to gitea"));
    assert.equal(waiting.moved, pushed + 50);
    assert.equal(aStory([50, [aJob()]], ...theWayOf(1, [100, 200])).moved, pushed + 200);
    const retry = aLine(900, "assignment transition", { assignment: "gitea-task-1", event: "backend_retry" });
    assert.equal(aStory(...theWayOf(1, [100]), retry).moved, pushed + 100);
    assert.equal(aStory([50, [aJob()]], [700, [aJob({ status: "in_progress" })]]).moved, pushed + 700);
  });

  it("takes the controller's own time, and ours for a line without one", () => {
    const line = {
      level: "info",
      msg: "task stored",
      assignment: "gitea-task-1",
      backend: "pod",
      job: "build",
    };
    assert.equal(aStory(line).tasks.get("gitea-task-1")?.entered.queued, pushed);
    assert.equal(aStory(...theWayOf(1, [123])).tasks.get("gitea-task-1")?.entered.queued, pushed + 123);
  });
});
