import assert from "node:assert/strict";
import { onlyJob, outputOf, type Workload } from "../../../support/workload.ts";

export const environment: Workload = {
  name: "environment",
  title: "what a job finds in its environment",
  check: (seen) => {
    const job = onlyJob(seen, "look");
    assert.equal(job.conclusion, "success");
    const names = outputOf(job, "Names");
    for (const name of [
      "GITHUB_API_URL",
      "GITHUB_SERVER_URL",
      "ACTIONS_RUNTIME_TOKEN",
      "ACTIONS_RESULTS_URL",
    ])
      assert.ok(names.includes(`${name}=`), `${name} is not among ${names.join(" ")}`);
  },
};
