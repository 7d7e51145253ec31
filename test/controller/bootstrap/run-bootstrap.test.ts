import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { Code } from "@connectrpc/connect";
import { describe, it } from "mocha";
import { DeadlineError } from "../../../controller/bootstrap/deadline.ts";
import { RefusedError } from "../../../controller/bootstrap/until-answered.ts";
import { Result, type TaskState } from "../../../proto/gen/runner/v1/runner_pb.ts";
import { aTask } from "../../support/a-task.ts";
import { type BootstrapUnderTest, bootstrapUnderTest } from "../../support/bootstrap-under-test.ts";
import { eventually } from "../../support/eventually.ts";

const stepsOf = (state: TaskState | undefined) =>
  state?.steps.map((step) => [step.id, step.result, step.logIndex]);

describe("an executor's life", () => {
  it("B-73 goes from the facade over the claim to gitea-runner, which runs once, and to the result", async () => {
    await using test = await bootstrapUnderTest({ logRows: 3 });
    assert.equal(await test.run(), Result.SUCCESS);
    const { calls } = test.facade;
    assert.deepEqual(calls.slice(0, 4), ["declare", "fetchTask", "updateTask", "updateLog"]);
    assert.ok(calls.lastIndexOf("updateLog") < calls.lastIndexOf("updateTask"), calls.join());
    assert.deepEqual(test.facade.rows, ["first", "second", "third"]);
    assert.equal(test.facade.logs.at(-1)?.noMore, true);
    const [trace, ...others] = await test.traces();
    assert.deepEqual(trace?.argv, ["daemon", "--config", test.program.configFile, "--once"]);
    assert.equal(others.length, 0);
    assert.match(String(trace.registration["address"]), /^http:\/\/127\.0\.0\.1:[0-9]+$/);
    assert.deepEqual(trace.registration["labels"], ["self-hosted:host", "pod:host"]);
    assert.deepEqual(stepsOf(test.facade.states.at(-1)?.state), [
      [0n, Result.SUCCESS, 3n],
      [1n, Result.SUCCESS, 3n],
    ]);
  });

  it("never tells the capability to gitea-runner, to the log or to the disk", async () => {
    await using test = await bootstrapUnderTest();
    await test.run();
    const [trace] = await test.traces();
    const registration = await readFile(test.program.registrationFile, "utf8");
    assert.doesNotMatch(JSON.stringify(trace) + registration + test.log.text(), /sesame/);
  });

  it("tells of a cancel that came while the job runs", async () => {
    await using test = await bootstrapUnderTest({ part: "waits" });
    const running = test.run();
    await test.facade.called("updateTask", 3);
    test.facade.result = Result.CANCELLED;
    assert.equal(await running, Result.CANCELLED);
    assert.deepEqual(test.facade.rows, ["first", "second", "heard RESULT_CANCELLED"]);
  });

  it("passes a stop on to gitea-runner, waits for its last rows, and reports no result", async () => {
    await using test = await bootstrapUnderTest({ part: "waits" });
    const running = test.run();
    await test.facade.called("updateTask", 3);
    test.stop.abort(new Error("stopped by SIGTERM"));
    await assert.rejects(running, /no result was delivered/);
    const last = "The executor was told to end while this job ran.";
    assert.deepEqual(test.facade.rows, ["first", "second", "stopped", last]);
  });
});

describe("an executor whose gitea-runner reports no result", () => {
  it("makes one from the steps, after a row that says why", async () => {
    await using test = await bootstrapUnderTest({ part: "dies", logRows: 3 });
    assert.equal(await test.run(), Result.FAILURE);
    assert.deepEqual(test.facade.rows, [
      "first",
      "second",
      "gitea-runner ended with exit code 3 without reporting a result.",
    ]);
    assert.equal(test.facade.logs.at(-1)?.noMore, true);
    const state = test.facade.states.at(-1)?.state;
    assert.deepEqual(stepsOf(state), [
      [0n, Result.FAILURE, 3n],
      [1n, Result.CANCELLED, 3n],
    ]);
    assert.notEqual(state?.stoppedAt, undefined);
  });

  it("reports a job as failed whose gitea-runner cannot be started", async () => {
    await using test = await bootstrapUnderTest();
    assert.equal(await test.run({ binary: join(test.folder, "missing") }), Result.FAILURE);
    assert.match(test.facade.rows[0] ?? "", /^gitea-runner could not be started: .*ENOENT/);
    assert.deepEqual(stepsOf(test.facade.states.at(-1)?.state), [
      [0n, Result.CANCELLED, 0n],
      [1n, Result.CANCELLED, 0n],
    ]);
  });

  it("reports a job as failed whose .runner file cannot be written", async () => {
    await using test = await bootstrapUnderTest();
    assert.equal(await test.run({ registrationFile: join(test.folder, "no", "folder") }), Result.FAILURE);
    assert.match(test.facade.rows[0] ?? "", /^gitea-runner could not be started: .*ENOENT/);
  });

  it("reports a cancelled job as cancelled", async () => {
    await using test = await bootstrapUnderTest({ part: "dies" });
    const running = test.run();
    await test.facade.called("updateLog");
    test.facade.result = Result.CANCELLED;
    assert.equal(await running, Result.CANCELLED);
  });

  it("does not let the log hold the result up", async () => {
    await using test = await bootstrapUnderTest({ part: "dies", times: { logs: 50, deliver: 5_000 } });
    test.facade.fail("updateLog", Code.Unavailable);
    assert.equal(await test.run(), Result.FAILURE);
    assert.deepEqual(test.facade.rows, []);
    assert.deepEqual((await test.log.line("log rows left behind")).fields, { rows: 3 });
  });
});

describe("an executor whose facade is away", () => {
  /** Away from the claim on, until the returned function is called. */
  const away = async ({ facade }: BootstrapUnderTest) => {
    await facade.called("updateTask");
    const rpcs = ["updateLog", "updateTask"] as const;
    for (const rpc of rpcs) facade.fail(rpc, Code.Unavailable);
    return () => {
      for (const rpc of rpcs) facade.recover(rpc);
    };
  };

  it("lets gitea-runner end, and delivers all that it has reported when the facade is back", async () => {
    await using test = await bootstrapUnderTest();
    const running = test.run();
    const back = await away(test);
    await test.log.line("gitea-runner is over");
    assert.deepEqual([test.facade.rows.length, test.facade.result], [0, Result.UNSPECIFIED]);
    back();
    assert.equal(await running, Result.SUCCESS);
    assert.deepEqual(test.facade.rows, ["first", "second", "third"]);
    assert.deepEqual(stepsOf(test.facade.states.at(-1)?.state), [
      [0n, Result.SUCCESS, 0n],
      [1n, Result.SUCCESS, 0n],
    ]);
  });

  it("gives up at its deadline", async () => {
    await using test = await bootstrapUnderTest({ times: { deliver: 100 } });
    const running = assert.rejects(test.run(), DeadlineError);
    await away(test);
    await running;
  });
});

describe("an executor that may not run its job", () => {
  it("reports a task that was cancelled before the claim, and starts nothing", async () => {
    await using test = await bootstrapUnderTest();
    test.facade.result = Result.CANCELLED;
    assert.equal(await test.run(), Result.CANCELLED);
    assert.deepEqual(await test.traces(), []);
    assert.deepEqual(test.facade.calls, ["declare", "fetchTask", "updateTask", "updateLog", "updateTask"]);
    assert.deepEqual(test.facade.rows, ["The job had ended before its runner began."]);
    assert.equal(test.facade.states.at(-1)?.state?.result, Result.CANCELLED);
    assert.notEqual(test.facade.states.at(-1)?.state?.stoppedAt, undefined);
  });

  it("starts nothing when its claim is refused", async () => {
    await using test = await bootstrapUnderTest();
    test.facade.fail("updateTask", Code.Unauthenticated);
    await assert.rejects(test.run(), RefusedError);
    assert.deepEqual(await test.traces(), []);
    assert.deepEqual(test.facade.calls, ["declare", "fetchTask", "updateTask"]);
  });

  it("ends gitea-runner when the facade refuses it in the middle", async () => {
    await using test = await bootstrapUnderTest({ part: "waits" });
    const running = assert.rejects(test.run(), RefusedError);
    await test.facade.called("updateTask", 3);
    test.facade.fail("updateTask", Code.Unauthenticated);
    await running;
    assert.equal(test.facade.states.at(-1)?.state?.result, Result.UNSPECIFIED);
  });

  it("claims nothing when it was stopped before", async () => {
    await using test = await bootstrapUnderTest();
    test.facade.fail("declare", Code.Unavailable);
    const running = test.run();
    await test.facade.called("declare", 2);
    test.stop.abort(new Error("stopped by SIGTERM"));
    await assert.rejects(running, /stopped by SIGTERM/);
  });

  it("gives up when it cannot claim in time", async () => {
    await using test = await bootstrapUnderTest({ times: { start: 100 } });
    test.facade.fail("fetchTask", Code.PermissionDenied);
    await assert.rejects(test.run(), DeadlineError);
    assert.ok(!test.facade.calls.includes("updateTask"));
  });
});

describe("an executor that does not hear whether it has claimed", () => {
  const start = 3_000;
  /** Asked every 10 ms at most: that takes longer. */
  const often = 310;

  it("goes on to ask when its time to start is over: if it has, nobody else will ever run the job", async () => {
    await using test = await bootstrapUnderTest({ times: { start } });
    test.facade.fail("updateTask", Code.Unavailable);
    const running = test.run();
    await Promise.race([test.facade.called("updateTask", often), running]);
    test.facade.recover("updateTask");
    assert.equal(await running, Result.SUCCESS);
  });

  it("does not run the job when another attempt has taken its place meanwhile", async () => {
    await using test = await bootstrapUnderTest({ times: { start } });
    test.facade.fail("updateTask", Code.Unavailable);
    const running = test.run();
    await Promise.race([test.facade.called("updateTask", often), running]);
    test.facade.fail("updateTask", Code.Unauthenticated);
    await assert.rejects(running, RefusedError);
    assert.deepEqual(await test.traces(), []);
  });

  it("gives up in the end", async () => {
    await using test = await bootstrapUnderTest({ times: { claim: 100 } });
    test.facade.fail("updateTask", Code.Unavailable);
    await assert.rejects(test.run(), DeadlineError);
  });
});

describe("gitea-job-started", () => {
  it("runs before the claim, and what it leaves running is not waited for", async () => {
    await using test = await bootstrapUnderTest();
    const left = `sleep 60 & echo $! > '${test.folder}/left'`;
    await test.script("gitea-job-started", `env > '${test.folder}/started'`, left);
    const running = test.run();
    await test.facade.called("updateTask");
    process.kill(Number(await readFile(join(test.folder, "left"), "utf8")));
    assert.match(await readFile(join(test.folder, "started"), "utf8"), /FAKE_RUNNER_PART=succeeds/);
    assert.equal(await running, Result.SUCCESS);
  });

  it("runs while the facade is waited for", async () => {
    await using test = await bootstrapUnderTest();
    await test.script("gitea-job-started", "exit 0");
    test.facade.fail("declare", Code.Unavailable);
    const running = test.run();
    await test.log.line("job is made ready");
    test.facade.recover("declare");
    assert.equal(await running, Result.SUCCESS);
  });

  it("is waited for when the task is there", async () => {
    await using test = await bootstrapUnderTest();
    const until = `until [ -e '${test.folder}/go' ]; do sleep 0.01; done`;
    await test.script("gitea-job-started", until, `touch '${test.folder}/done'`);
    const running = test.run();
    await test.facade.called("fetchTask");
    await test.script("go");
    await test.facade.called("updateTask");
    assert.ok((await readdir(test.folder)).includes("done"));
    assert.equal(await running, Result.SUCCESS);
  });

  it("is ended when the facade refuses for good", async () => {
    await using test = await bootstrapUnderTest();
    const said = `trap 'touch ${test.folder}/told; exit 1' TERM`;
    await test.script(
      "gitea-job-started",
      said,
      `touch '${test.folder}/begun'`,
      "while :; do sleep 0.01; done",
    );
    test.facade.fail("declare", Code.Unavailable);
    const running = test.run();
    await eventually("it runs", async () => (await readdir(test.folder)).includes("begun"));
    test.facade.fail("declare", Code.Unauthenticated);
    await assert.rejects(running, RefusedError);
    assert.ok((await readdir(test.folder)).includes("told"));
  });

  it("leaves the task to another attempt when it fails", async () => {
    await using test = await bootstrapUnderTest();
    await test.script("gitea-job-started", "exit 7");
    await assert.rejects(test.run(), /gitea-job-started ended with exit code 7/);
    assert.ok(!test.facade.calls.includes("updateTask"));
  });

  it("is ended at its deadline", async () => {
    await using test = await bootstrapUnderTest({ times: { jobStarted: 100 } });
    await test.script("gitea-job-started", "exec sleep 60");
    await assert.rejects(test.run(), /gitea-job-started did not end/);
    assert.ok(!test.facade.calls.includes("updateTask"));
  });
});

describe("a task without what a bootstrap looks for", () => {
  it("is left to gitea-runner", async () => {
    await using test = await bootstrapUnderTest({ task: aTask({ workflow: "jobs: {}", context: {} }) });
    assert.equal(await test.run(), Result.SUCCESS);
    assert.deepEqual((await test.traces())[0]?.registration["labels"], []);
  });
});
