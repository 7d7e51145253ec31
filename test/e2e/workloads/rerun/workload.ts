import assert from "node:assert/strict";
import { conclusions, onlyJob, type Workload } from "../../../support/workload.ts";

export const rerun: Workload = {
  name: "rerun",
  title: "a failed job is run again, and so is what needs it",
  act: async ({ newestRun, jobs, rerunFailed }) => {
    const run = await newestRun();
    await jobs(run, (all) => all.length === 2 && all.every(({ status }) => status === "completed"));
    await rerunFailed(run);
  },
  check: (seen) => {
    assert.equal(seen.runs[0]?.attempt, 2);
    assert.deepEqual(conclusions(seen.runs[0]), { flaky: "success", after: "success" });
    const { log } = onlyJob(seen, "flaky");
    assert.ok(log.includes("attempt 2"), log.join("\n"));
    assert.ok(!log.includes("attempt 1"), log.join("\n"));
  },
};
