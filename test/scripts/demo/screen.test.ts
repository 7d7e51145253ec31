import assert from "node:assert/strict";
import { afterEach, describe, it } from "mocha";
import { createLiveScreen, createPlainScreen, type Screen } from "../../../scripts/demo/screen.ts";
import { finish } from "../../../scripts/demo/story.ts";
import { createFakeClock } from "../../fakes/fake-clock.ts";
import { aJob, aLine, aStory, pushed, theWayOf } from "./builders.ts";
import { createFakeTerminal } from "./fake-terminal.ts";

const named = { names: { 1: "check vm" } };
const vm = { job: "check", backend: "vm" };
const jobs = [aJob({ name: "check vm", backend: "vm" })];
const done = [aJob({ name: "check vm", backend: "vm", status: "completed", conclusion: "success" })];
const retry = aLine(500, "assignment transition", { assignment: "gitea-task-1", event: "backend_retry" });

describe("the screen without a terminal", () => {
  const usePlain = () => {
    const lines: string[] = [];
    return { lines, screen: createPlainScreen((text) => lines.push(text)) };
  };

  it("has a line for each thing that happens, once, with the time since the push", () => {
    const { lines, screen } = usePlain();
    screen.show(aStory(...theWayOf(1, [1_230], vm), named));
    screen.show(aStory(...theWayOf(1, [1_230, 2_000, 2_010, 2_500, 12_000, 12_100], vm), named));
    assert.deepEqual(lines, [
      "   1.23 s  check vm    fetched from Gitea, stored in the queue\n",
      "   2.00 s  check vm    executor started gitea-task-1-1-0123abcd\n",
      "   2.01 s  check vm    identity given to the executor gitea-task-1-1-0123abcd\n",
      "   2.50 s  check vm    claimed: gitea-runner runs it\n",
      "  12.00 s  check vm    Gitea has its result: success\n",
      "  12.10 s  check vm    executor deleted gitea-task-1-1-0123abcd\n",
    ]);
  });

  it("holds lines back until Gitea has said which job it is", () => {
    const { lines, screen } = usePlain();
    screen.show(aStory(...theWayOf(1, [100, 200], vm)));
    assert.deepEqual(lines, []);
    screen.show(aStory(...theWayOf(1, [100, 200], vm), named));
    assert.equal(lines.length, 2);
  });

  it("calls a job of another push by its key once the run is over", () => {
    const { lines, screen } = usePlain();
    screen.settle(finish(aStory([1, done], ...theWayOf(9, [100], { job: "other" }))));
    assert.deepEqual(lines, ["   0.10 s  other (pod) fetched from Gitea, stored in the queue\n"]);
  });

  it("tells of troubles", () => {
    const { lines, screen } = usePlain();
    screen.show(aStory(...theWayOf(1, [100], vm), named, retry));
    assert.match(lines.at(-1) ?? "", /check vm +something failed, it will be tried again/);
  });
});

describe("the screen on a terminal", () => {
  let screen: Screen | undefined;
  afterEach(() => screen?.close());
  const useLive = (columns = 90, rows = 24) => {
    const terminal = createFakeTerminal(columns, rows);
    const clock = createFakeClock(pushed + 1_000);
    const live = createLiveScreen(terminal, { colours: false, clock });
    screen = live;
    /** Draws as the timer would: a change of the size draws at once. */
    const frame = () => {
      terminal.resize(terminal.columns, terminal.rows);
    };
    return { terminal, clock, live, frame };
  };
  const waiting = "check vm vm  waiting";

  it("redraws the table in place as time goes on, below the lines that stay", async () => {
    const { terminal, clock, live, frame } = useLive();
    live.say("Jobs");
    live.show(aStory([0, jobs]));
    frame();
    assert.equal(terminal.screen()[2], `${waiting}     1.0     1.0`);
    await clock.step(1_500);
    frame();
    live.say("a line that stays");
    assert.deepEqual(terminal.screen(), [
      "Jobs",
      "a line that stays",
      "job      on  stage     total waiting queued executor identity claimed running",
      `${waiting}     2.5     2.5`,
      "2.5 s · 0 of 1 done · 0 executors",
      "",
    ]);
  });

  it("cuts the table where the terminal is narrow", () => {
    const { terminal, live, frame } = useLive(20);
    live.show(aStory([0, jobs]));
    frame();
    assert.deepEqual(terminal.screen(), [
      "job      on  stage",
      "check vm vm  waitin",
      "1.0 s · 0 of 1 done",
      "",
    ]);
  });

  it("leaves a line for the cursor where there are more jobs than rows", () => {
    const { terminal, live, frame } = useLive(80, 6);
    live.show(aStory([0, Array.from({ length: 20 }, (_, id) => aJob({ id, name: `job-${id}` }))]));
    frame();
    frame();
    assert.equal(terminal.screen().length, 6);
  });

  it("says above the table what goes wrong, and nothing of what goes right", () => {
    const { terminal, live, frame } = useLive();
    live.show(aStory([0, jobs], ...theWayOf(1, [100, 200], vm), named, retry));
    frame();
    const [first = "", second = ""] = terminal.screen();
    assert.match(first, /0\.50 s {2}check vm +something failed/);
    assert.match(second, /^job/);
  });

  it("leaves the last table with all jobs, the cursor, and lines for what comes later", () => {
    const { terminal, live, frame } = useLive(90, 6);
    const many = Array.from({ length: 9 }, (_, id) =>
      aJob({ id, name: `job-${id}`, status: "completed", conclusion: "success" }),
    );
    live.show(aStory([0, many]));
    frame();
    const over = finish(aStory([0, many]));
    live.settle(over);
    live.settle(over);
    assert.equal(terminal.cursorShown, true);
    assert.equal(terminal.screen().length, 1 + 9 + 1 + 1);
    live.show(finish(aStory([0, many], ...theWayOf(12, [3_000], { job: "later" }))));
    assert.match(terminal.screen().at(-2) ?? "", /3\.00 s {2}later \(pod\) fetched from Gitea/);
    const count = terminal.writes.length;
    frame();
    assert.equal(terminal.writes.length, count, "it is still drawn");
  });

  it("leaves the table where it stood when the demo ends early", () => {
    const { terminal, live, frame } = useLive();
    live.show(aStory([0, jobs]));
    frame();
    live.close();
    live.say("Failed: for a reason");
    assert.equal(terminal.cursorShown, true);
    assert.match(terminal.screen()[1] ?? "", new RegExp(`^${waiting.replaceAll(/[()]/g, ".")}`));
    assert.equal(terminal.screen().at(-2), "Failed: for a reason");
  });
});
