import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { parse } from "yaml";
import { filesOf, manyJobs, secretName } from "../../../scripts/demo/example.ts";
import { exitCode, StoppedBySignal } from "../../../scripts/demo/exit-code.ts";
import { isSuccess, sumUp } from "../../../scripts/demo/sum-up.ts";
import { resultLines, secretInLog } from "../../../scripts/demo/tell-result.ts";
import { explain, UserError } from "../../../scripts/demo/user-error.ts";
import { aJob, aStory, theWayOf } from "./builders.ts";

const job = (id: number, conclusion: string) =>
  aJob({ id, name: `job-${id}`, status: "completed", conclusion });
const cleaned = { executors: 0, processes: 4, folders: 1, runners: 0, repositories: 0, problems: [] };

describe("how the demo went", () => {
  for (const [what, jobs, success] of [
    ["no success without a job", [], false],
    ["no success while a job runs", [job(1, "success"), aJob({ id: 2 })], false],
    ["a success if every job was one", [job(1, "success"), job(2, "success")], true],
    ["no success with a failed job", [job(1, "success"), job(2, "failure")], false],
    ["no success with a cancelled job", [job(1, "cancelled")], false],
    ["no success with a skipped job", [job(1, "skipped")], false],
  ] as const)
    it(`is ${what}`, () => assert.equal(isSuccess(aStory([1, jobs])), success));

  it("is summed up with what was really deleted, by the controller and after it", () => {
    const lines = [...theWayOf(1, [1, 2, 3, 4, 5, 6]), ...theWayOf(2, [1, 2])];
    const story = aStory([10, [job(1, "success"), aJob({ id: 2 })]], ...lines, [
      4_321,
      [job(1, "success"), job(2, "success")],
    ]);
    assert.equal(
      sumUp(story, { ...cleaned, executors: 1 }, false),
      "Success: 2 jobs, 4.3 s from push to done, at most 1 at once; cleaned up: 2 executors, 4 processes, 1 folder",
    );
  });

  it("is summed up with what was removed from somebody's Gitea", () => {
    const removed = { ...cleaned, processes: 3, folders: 0, runners: 1, repositories: 1 };
    assert.equal(
      sumUp(aStory([10, [job(1, "failure")]]), removed, false),
      "Failure: 1 of 1 job, 0.0 s from push to done, at most 0 at once; " +
        "cleaned up: 0 executors, 3 processes, 0 folders, 1 runner, 1 repository",
    );
  });

  it("is told apart from a demo that was stopped, or that failed, before the jobs were done", () => {
    const early = aStory([1, [aJob()]]);
    assert.match(sumUp(early, cleaned, true), /^Stopped; cleaned up: /);
    assert.match(sumUp(early, cleaned, false), /^Failure; cleaned up: /);
  });

  for (const [success, reason, code] of [
    [true, undefined, 0],
    [false, undefined, 1],
    [true, new StoppedBySignal("SIGINT"), 130],
    [false, new StoppedBySignal("SIGINT"), 130],
    [false, new StoppedBySignal("SIGTERM"), 143],
    [false, new StoppedBySignal("SIGHUP"), 129],
    [true, new Error("write EPIPE"), 1],
  ] as const)
    it(`is exit code ${code} for ${success ? "success" : "no success"} and ${String(reason)}`, () =>
      assert.equal(exitCode(success, reason), code));
});

describe("what Gitea says", () => {
  it("is said for each of a few jobs, and in numbers for many", () => {
    assert.deepEqual(resultLines([job(1, "success"), job(2, "failure")]), [
      "Gitea says: job-1 success, job-2 failure",
    ]);
    const many = Array.from({ length: 9 }, (_, id) => job(id, id === 4 ? "failure" : "success"));
    assert.deepEqual(resultLines(many), ["Gitea says: 8 success, 1 failure"]);
  });

  it("tells of steps that failed in a job that did not", () => {
    const steps = [{ name: "Try", status: "completed", conclusion: "failure" }];
    assert.deepEqual(
      resultLines([
        { ...job(1, "success"), steps },
        { ...job(2, "failure"), steps },
      ]).slice(1),
      ['  job-1: the step "Try" failed, as it may (continue-on-error)'],
    );
  });

  it("tells what became of a secret", () => {
    assert.equal(secretInLog("it is ***", "hush"), "masked");
    assert.equal(secretInLog("it is hush, not ***", "hush"), "told");
    assert.equal(secretInLog("nothing", "hush"), "absent");
  });
});

describe("what the demo pushes", () => {
  it("is an example with needs, outputs, a matrix on both backends, a secret and a step that may fail", async () => {
    const text = (await filesOf({ kind: "example" }))[".gitea/workflows/hello.yml"] ?? "";
    const { jobs } = parse(text) as { jobs: Record<string, Record<string, unknown>> };
    assert.deepEqual(Object.keys(jobs), ["build", "check"]);
    assert.equal(jobs["check"]?.["needs"], "build");
    assert.deepEqual(jobs["check"]?.["strategy"], { matrix: { backend: ["pod", "vm"] } });
    assert.match(text, /outputs:/);
    assert.match(text, /continue-on-error: true/);
    assert.ok(text.includes(`secrets.${secretName} `));
    assert.match(text, /name: Show a secret/, "the demo looks at the log of the job with that step");
  });

  it("is as many independent jobs as were asked for, in turns for pod and vm", () => {
    for (const count of [1, 2, 9, 10, 100]) {
      const { jobs } = parse(manyJobs(count)) as { jobs: Record<string, { "runs-on": readonly string[] }> };
      const all = Object.values(jobs);
      assert.equal(all.length, count);
      assert.deepEqual(
        all.map((each) => each["runs-on"]),
        all.map((_, index) => ["self-hosted", index % 2 === 0 ? "pod" : "vm"]),
      );
      assert.equal(new Set(Object.keys(jobs).map(({ length }) => length)).size, 1, "names of one length");
    }
  });

  it("is a file of the user's, or what is wrong with it", async () => {
    const file = import.meta.filename;
    const files = await filesOf({ kind: "file", file });
    assert.match(files[".gitea/workflows/demo.yml"] ?? "", /or what is wrong with it/);
    await assert.rejects(
      filesOf({ kind: "file", file: `${file}.none` }),
      /--workflow .*none cannot be read: .*ENOENT/,
    );
  });
});

describe("an error", () => {
  it("is shown with its causes, unless its message is for the user", () => {
    const cause = new Error("deep");
    assert.equal(explain(new Error("work", { cause })), "work: deep");
    assert.equal(explain(new UserError("work", { cause })), "work");
  });

  it("is shown with what failed after it", () => {
    const both = new SuppressedError(new Error("disk full"), new UserError("no port"));
    assert.equal(explain(both), "no port; then disk full");
    assert.equal(explain(new SuppressedError(new Error("same"), new Error("same"))), "same");
  });
});
