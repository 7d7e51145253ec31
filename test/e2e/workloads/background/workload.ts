import assert from "node:assert/strict";
import { conclusions, onlyJob, outputOf, type Workload } from "../../../support/workload.ts";

export const background: Workload = {
  name: "background",
  title: "a process left behind: a quiet one does not hold the job, one that has its output holds the step",
  tools: ["pgrep"],
  check: (seen) => {
    assert.deepEqual(conclusions(seen.runs[0]), { quiet: "success", loud: "success" });
    assert.deepEqual(outputOf(onlyJob(seen, "quiet"), "It still runs"), ["runs"]);
    const loud = onlyJob(seen, "loud");
    assert.deepEqual(outputOf(loud, "Leave one that holds the output"), ["said first", "said late"]);
    assert.deepEqual(outputOf(loud, "Next"), ["said last"]);
  },
};
