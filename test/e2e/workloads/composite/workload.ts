import assert from "node:assert/strict";
import { onlyJob, stepStates, type Workload } from "../../../support/workload.ts";

export const composite: Workload = {
  name: "composite",
  title: "local composite and JavaScript actions after a clone, with inputs, outputs, state and a post step",
  tools: ["git"],
  check: (seen) => {
    const job = onlyJob(seen, "compose");
    assert.equal(job.conclusion, "success");
    assert.deepEqual(new Set(Object.values(stepStates(job))), new Set(["success"]));
    for (const line of [
      "in the action: Good evening, moon",
      "the action knows its folder",
      "greeting: Good evening, moon",
      "doubling 20",
      "doubled: 40, from the environment: 40",
      "good-bye, 40",
    ])
      assert.equal(job.log.filter((row) => row === line).length, 1, line);
  },
};
