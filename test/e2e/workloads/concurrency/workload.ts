import assert from "node:assert/strict";
import { conclusions, jobOf, type Workload } from "../../../support/workload.ts";

export const concurrency: Workload = {
  name: "concurrency",
  title: "a second push cancels the run of the first (cancel-in-progress)",
  runs: 2,
  act: async ({ newestRun, said, push }) => {
    const first = await newestRun();
    await said(first, "work", "begun");
    await push({ "second.txt": "second\n" }, "Push again");
    // Gitea may show the job as cancelled before its runner has wound up.
    await said(first, "work", "context canceled");
  },
  check: (seen) => {
    const [first, second] = seen.runs;
    assert.ok(first !== undefined && second !== undefined);
    assert.deepEqual(conclusions(first), { work: "cancelled" });
    assert.deepEqual(conclusions(second), { work: "success" });
    assert.ok(jobOf(second, "work").log.includes("done"));
    assert.ok(!jobOf(first, "work").log.includes("done"));
  },
};
