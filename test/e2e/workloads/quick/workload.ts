import assert from "node:assert/strict";
import { conclusions, onlyJob, outputOf, type Workload } from "../../../support/workload.ts";

export const quick: Workload = {
  name: "quick",
  title: "a job shorter than a second",
  check: (seen) => {
    assert.deepEqual(conclusions(seen.runs[0]), { quick: "success" });
    assert.deepEqual(outputOf(onlyJob(seen, "quick"), "Nothing"), []);
  },
};
