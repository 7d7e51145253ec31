import assert from "node:assert/strict";
import { conclusions, onlyJob, type Workload } from "../../../support/workload.ts";

export const outputTooLarge: Workload = {
  name: "output-too-large",
  title: "an output of more than 1 MiB is left out, and the job's log says so",
  check: (seen) => {
    assert.deepEqual(conclusions(seen.runs[0]), { produce: "success", consume: "success" });
    const produced = onlyJob(seen, "produce").log.join("\n");
    assert.match(produced, /ignore output because the value "large" is too long: 1048577/);
    const consumed = onlyJob(seen, "consume").log;
    assert.ok(consumed.includes("small: 'taken'"));
    assert.ok(consumed.includes("large: ''"));
  },
};
