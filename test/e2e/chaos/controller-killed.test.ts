import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { type FailPoint, failPointMessage } from "../../support/chaos/fail-point.ts";
import type { Batch } from "../../support/chaos/numbered-jobs.ts";
import { scaledTimes } from "../../support/chaos/scaled-times.ts";
import { useChaos } from "../../support/chaos/use-chaos.ts";

const jobs = 6;
const capacity = 3;

/**
 * Of six jobs at three at a time, at least three pass each of these once all six are stored: the second one to come
 * there meets its end beside others that wait, start and run.
 */
const moments: readonly (Omit<FailPoint, "nth"> & { readonly what: string })[] = [
  { when: "after", name: "received", what: "B-31 once a delivery is received" },
  { when: "after", name: "capacity_acquired", what: "B-31 once a slot is held" },
  { when: "after", name: "executor_absent", what: "B-31 once an executor is known to be absent" },
  { when: "after", name: "enter_starting", what: "between an attempt's record and its executor" },
  { when: "after", name: "executor_created", what: "B-31 once an executor is created" },
  { when: "after", name: "identity_bound", what: "B-31 once an identity is bound" },
  { when: "after", name: "backend_ready", what: "B-31 once an executor is ready" },
  { when: "before", name: "enter_claimed", what: "before a claim is recorded" },
  { when: "after", name: "enter_claimed", what: "between a claim's record and its answer" },
  { when: "after", name: "runner_claimed", what: "B-31 once a claim is seen" },
  { when: "after", name: "acked", what: "B-31 once a message is acknowledged" },
  { when: "before", name: "gitea_report", what: "before a report reaches Gitea" },
  { when: "after", name: "gitea_report", what: "between Gitea's answer to a report and ours" },
  { when: "before", name: "report_put", what: "before a result is stored" },
  { when: "after", name: "report_put", what: "between a result and the record that names it" },
  { when: "after", name: "enter_ending", what: "between a stored result and Gitea" },
  { when: "after", name: "gitea_result", what: "between Gitea's answer to a result and its record" },
  { when: "after", name: "enter_finished", what: "between a result's record and the executor's mark" },
  { when: "after", name: "executor_mark", what: "between the executor's mark and the answer to its result" },
  { when: "before", name: "executor_delete", what: "before an executor is deleted" },
  { when: "after", name: "executor_delete", what: "after an executor is deleted" },
  { when: "after", name: "report_remove", what: "between a stored result's removal and its record's" },
  { when: "after", name: "record_remove", what: "after a record is removed" },
];

/** The tasks of these are stored, or are being stored: the sixth one is the last. */
const early: typeof moments = [
  { when: "after", name: "publish", what: "between a task's message and its record" },
  { when: "after", name: "record_create", what: "after a task's record" },
];

describe("a controller that is killed and started again", function () {
  this.timeout(300_000);
  const real = useChaos({
    sizes: [jobs],
    controller: { POD_CAPACITY: String(capacity), POD_BACKLOG: String(jobs) },
    // A job that nobody speaks for is to be over when all tests are, and not before the other jobs of its run.
    giteaSettings: {
      actions: { ENABLED: "true", ZOMBIE_TASK_TIMEOUT: "150s" },
      "cron.stop_zombie_tasks": { ENABLED: "true", SCHEDULE: "@every 2s" },
    },
  });

  /** Starts the jobs and a controller that dies of them, then one that does not. */
  const survive = async (
    point: FailPoint,
    storedTasks: number,
    changed: Readonly<Record<string, string>> = {},
  ): Promise<Batch> => {
    await real.kill();
    const [batch] = await Promise.all([
      real.numbered.dispatch(jobs),
      real.startToFail(point, storedTasks, changed),
    ]);
    assert.equal(await real.platform.controller().exited, "SIGKILL");
    assert.equal(real.lines.at(-1)?.msg, failPointMessage);
    await real.start();
    return batch;
  };

  const test = (title: string, point: FailPoint, storedTasks: number, changed = {}) => {
    it(title, async () => {
      const batch = await survive(point, storedTasks, changed);
      await batch.succeeded(await batch.over());
      await real.nothingLeft();
    });
  };

  let lost: Batch | undefined;
  it("loses the one task that Gitea has answered with and that is not stored yet", async () => {
    // A single fetcher: no other task is on its way.
    const single = { COMPONENTS: "scheduler,pod-worker", POD_CAPACITY: "1" };
    lost = await survive({ name: "publish", nth: 1, when: "before" }, 3, single);
    const over = (await lost.over(1)).filter(({ status }) => status === "completed");
    assert.equal(over.length, jobs - 1);
    await lost.succeeded(over);
    await real.nothingLeft();
  });

  for (const { what, ...moment } of early) test(`runs each job once: ${what}`, { ...moment, nth: jobs }, 0);
  for (const { what, ...moment } of moments) test(`runs each job once: ${what}`, { ...moment, nth: 2 }, jobs);

  for (const when of ["before", "after"] as const)
    test(
      `runs each job once: ${when} an executor is killed whose task is over`,
      { name: "executor_kill", nth: 2, when },
      jobs,
      { RUNNER_TIMES: scaledTimes({ terminalGraceMs: 1 }) },
    );

  it("leaves the lost task to Gitea's sweep: nothing has run of it", async () => {
    assert.ok(lost !== undefined, "no task was lost");
    const failed = (await lost.over()).filter(({ conclusion }) => conclusion !== "success");
    assert.deepEqual(
      failed.map(({ conclusion }) => conclusion),
      ["failure"],
    );
    assert.equal((await lost.begun()).length, jobs - 1);
  });
});
