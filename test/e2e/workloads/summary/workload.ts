import assert from "node:assert/strict";
import { onlyJob, outputOf, type Workload } from "../../../support/workload.ts";

/**
 * gitea-runner 1.0.8 gives a step the file `GITHUB_STEP_SUMMARY` and does nothing with it; later versions send it
 * to Gitea, which takes it from version 1.27 on. What those do is done here by hand.
 */
export const summary: Workload = {
  name: "summary",
  title: "a job summary, which gitea-runner 1.0.8 does not send by itself, reaches Gitea through its address",
  check: (seen) => {
    const job = onlyJob(seen, "summarise");
    assert.equal(job.conclusion, "success");
    assert.deepEqual(outputOf(job, "By the API"), ["summary put: 200"]);
    const shown = seen.runs[0]?.summaries["summarise"] ?? "";
    assert.match(shown, /By the API/);
    assert.doesNotMatch(shown, /By the file/, "gitea-runner sends summaries now: this test is to be turned");
  },
};
