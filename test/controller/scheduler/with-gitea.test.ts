import assert from "node:assert/strict";
import { afterEach, describe, it } from "mocha";
import { failureFor, failureRows } from "../../../controller/assignment/failure.ts";
import { beat } from "../../../controller/gitea/beat.ts";
import { createReportEnd } from "../../../controller/gitea/report-end.ts";
import { createRunnerClient, type RunnerClient } from "../../../controller/gitea/runner-client.ts";
import { compressTask } from "../../../controller/protocol/compressed-task.ts";
import { readTask } from "../../../controller/protocol/read-task.ts";
import { createHeldUp } from "../../../controller/scheduler/held-up.ts";
import { createScheduler } from "../../../controller/scheduler/scheduler.ts";
import { createTakeTask } from "../../../controller/scheduler/take-task.ts";
import { createFakeClock, settle } from "../../fakes/fake-clock.ts";
import { startFakeGitea, type FakeGitea } from "../../fakes/fake-gitea.ts";
import { createRecordingLogger } from "../../fakes/recording-logger.ts";
import { testTrustDomain } from "../../support/builders.ts";

/**
 * The whole way of a task from Gitea to the queue; only the queue is a fake. Time passes by itself until the scheduler
 * has ended, but stands still while Gitea is asked: no deadline and no pause depends on how busy the machine is.
 */
function start(gitea: FakeGitea, stop: AbortController, capacity = 4) {
  const runner = gitea.addRunner();
  const connection = createRunnerClient({ ...runner, url: gitea.url, version: "test/1" });
  let asked = 0;
  const counted = async <T>(call: Promise<T>) => {
    asked++;
    try {
      return await call;
    } finally {
      asked--;
    }
  };
  const client: Omit<RunnerClient, "close"> = {
    declare: (labels, signal) => counted(connection.declare(labels, signal)),
    fetchTask: (tasksVersion) => counted(connection.fetchTask(tasksVersion)),
    updateTask: (request, signal) => counted(connection.updateTask(request, signal)),
    updateLog: (request, signal) => counted(connection.updateLog(request, signal)),
  };
  const clock = createFakeClock();
  const ended = new AbortController();
  const passTime = async () => {
    while (!ended.signal.aborted) {
      if (asked > 0) await settle();
      else await clock.step(100);
    }
  };
  const reportEnd = createReportEnd({ gitea: client, clock });
  const log = createRecordingLogger();
  const heldUp = createHeldUp();
  const published: bigint[] = [];
  const state = { publishes: true };
  let sequence = 0;
  let watchers: (() => void)[] = [];
  const scheduler = createScheduler({
    gitea: client,
    take: createTakeTask({
      read: (task) => readTask({ trustDomain: testTrustDomain, allowForksOnPods: false }, task),
      compress: compressTask,
      publish: ({ assignment }) => {
        if (!state.publishes) return Promise.reject(new Error("the queue is away"));
        published.push(assignment.taskId);
        for (const watcher of watchers) watcher();
        return Promise.resolve({ sequence: ++sequence });
      },
      isKnown: () => false,
      offer: () => Promise.resolve(),
      fail: (taskId, failure, signal) => {
        const reason = failure === undefined ? [] : failureRows(failure, { offered: "[self-hosted, pod]" });
        const result = failure === undefined ? "cancelled" : "failure";
        return reportEnd({ taskId, result, reason, steps: [] }, signal);
      },
      beat: (taskId, signal) => beat(client, taskId, signal),
      heldUp,
      clock,
      random: () => 0.5,
      log,
    }),
    labelsFor: (kinds) => ["self-hosted", ...kinds],
    loads: () => [{ kind: "pod", waiting: 0, oldestMs: 0, backlog: 1 }],
    loadsChanged: (signal) => clock.sleep(1e9, signal),
    heldUp,
    capacity,
    clock,
    random: () => 0.5,
    log,
  });
  const run = scheduler.run(stop.signal).finally(() => ended.abort());
  const timeIsOver = passTime();
  const until = (count: number) =>
    new Promise<void>((resolve) => {
      const watcher = () => {
        if (published.length >= count) resolve();
      };
      watchers = [...watchers, watcher];
      watcher();
    });
  const end = async () => {
    stop.abort(new Error("stop"));
    await Promise.all([run, timeIsOver]);
    connection.close();
  };
  return { runner, log, published, state, until, end, run };
}

const podJobs = (gitea: FakeGitea, count: number) =>
  Array.from({ length: count }, () => gitea.addJob({ runsOn: ["self-hosted", "pod"] }));

describe("the scheduler with a Gitea", () => {
  let stop = new AbortController();
  afterEach("stop the scheduler of a test that failed", () => {
    stop.abort();
    stop = new AbortController();
  });

  it("publishes every task exactly once, whatever calls go wrong without Gitea having chosen one", async () => {
    await using gitea = await startFakeGitea();
    const jobs = podJobs(gitea, 20);
    for (let i = 0; i < 4; i++) {
      gitea.next("FetchTask", { kind: "unreached" });
      gitea.next("FetchTask", { kind: "busy" });
      gitea.next("FetchTask", { kind: "slow", until: gitea.called("FetchTask", 4 * i + 3).then(settle) });
      gitea.next("FetchTask", { kind: "error", text: "rpc error: code = Internal desc = pick task: locked" });
    }
    gitea.next("Declare", { kind: "lost" });
    const scheduler = start(gitea, stop);
    await scheduler.until(20);
    await scheduler.end();
    assert.equal(scheduler.published.length, 20);
    assert.deepEqual(new Set(scheduler.published), new Set(jobs.map(({ task }) => task?.id)));
  });

  it("loses no other task to an answer that got lost, and does not take that one for its own", async () => {
    await using gitea = await startFakeGitea();
    const jobs = podJobs(gitea, 6);
    gitea.next("FetchTask", { kind: "lost" });
    const scheduler = start(gitea, stop);
    await scheduler.until(5);
    await scheduler.end();
    const [lost] = jobs.filter(({ task }) => task !== undefined && !scheduler.published.includes(task.id));
    assert.ok(lost !== undefined);
    assert.equal(scheduler.published.length, 5);
    assert.ok(scheduler.log.lines.some(({ message }) => message === "scheduler error"));
  });

  it("B-20 finishes a slow fetch after a stop and publishes its task", async () => {
    await using gitea = await startFakeGitea();
    const [job] = podJobs(gitea, 1);
    const answer = Promise.withResolvers<void>();
    gitea.next("FetchTask", { kind: "slow", until: answer.promise });
    const scheduler = start(gitea, stop, 1);
    await gitea.called("FetchTask");
    stop.abort(new Error("stop"));
    answer.resolve();
    await scheduler.run;
    assert.deepEqual(scheduler.published, [job?.task?.id]);
    assert.equal(gitea.calls.filter(({ method }) => method === "FetchTask").length, 1);
  });

  it("B-22 takes no further task while the queue is away, and fails those in hand at a stop, with the reason", async () => {
    await using gitea = await startFakeGitea();
    const jobs = podJobs(gitea, 20);
    const scheduler = start(gitea, stop);
    scheduler.state.publishes = false;
    const before = scheduler.published.length;
    await scheduler.log.line("publishing a task failed");
    // Beats for what is in hand.
    await gitea.called("UpdateTask", 2);
    const inHand = jobs.filter(({ task }) => task !== undefined).length - before;
    assert.ok(inHand <= 4, String(inHand));
    await scheduler.end();
    const failed = jobs.filter((job) => gitea.shown(job).job === "failure");
    assert.equal(failed.length, inHand);
    for (const { task } of failed) {
      assert.match(task?.log.join("\n") ?? "", /could not be stored/);
      assert.equal(task?.ends, 1);
    }
  });

  it("fails what nobody offers at once, with one clear line in its log, and goes on", async () => {
    await using gitea = await startFakeGitea();
    const wrong = gitea.addJob({ runsOn: [], steps: 2 });
    const alone = gitea.addJob({ runsOn: ["self-hosted"] });
    const [good] = podJobs(gitea, 1);
    const scheduler = start(gitea, stop, 1);
    await scheduler.until(1);
    await scheduler.end();
    assert.deepEqual(gitea.shown(wrong), { job: "failure", steps: ["skipped", "skipped"] });
    const failure = failureFor("labels", 'runs-on: [] lacks "self-hosted"');
    assert.deepEqual(wrong.task?.log, failureRows(failure, { offered: "[self-hosted, pod]" }));
    assert.match(
      wrong.task.log.join("\n"),
      /runs-on: \[\] lacks "self-hosted"[^]*Offered: runs-on: \[self-hosted, pod\]/,
    );
    assert.equal(gitea.shown(alone).job, "failure");
    assert.deepEqual(scheduler.published, [good?.task?.id]);
  });

  it("never registers, and declares once, also when Gitea forgets the runner for a while", async () => {
    await using gitea = await startFakeGitea();
    const scheduler = start(gitea, stop, 2);
    await gitea.called("FetchTask", 2);
    gitea.runners.splice(0);
    await scheduler.log.line("scheduler error");
    gitea.runners.push(scheduler.runner);
    podJobs(gitea, 1);
    await scheduler.until(1);
    await scheduler.end();
    const methods = gitea.calls.map(({ method }) => method);
    assert.equal(methods.filter((method) => method === "Declare").length, 1);
    assert.ok(!methods.includes("Register"));
  });

  it("shows nothing of a task, and no token, in its log", async () => {
    await using gitea = await startFakeGitea();
    gitea.addJob({
      runsOn: ["self-hosted", "pod"],
      secrets: { DEPLOY_KEY: "zq7Pw3" },
      vars: { V: "zq7Pw3" },
      context: { head_ref: "zq7Pw3" },
    });
    gitea.addJob({ runsOn: ["self-hosted"], secrets: { DEPLOY_KEY: "zq7Pw3" } });
    gitea.next("FetchTask", { kind: "error", text: "rpc error: code = Internal desc = pick task: locked" });
    const scheduler = start(gitea, stop, 1);
    await scheduler.until(1);
    await scheduler.log.line("task refused");
    await scheduler.end();
    assert.doesNotMatch(scheduler.log.text(), /zq7Pw3|task-token|runner-token|spiffe/);
  });
});
