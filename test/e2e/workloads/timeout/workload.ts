import assert from "node:assert/strict";
import { conclusions, onlyJob, stepStates, type Workload } from "../../../support/workload.ts";

/** gitea-runner 1.0.8 knows whole minutes of a step only: it reads neither parts of them nor a job's own limit. */
export const timeout: Workload = {
  name: "timeout",
  title: "timeout-minutes ends a step, and what is for always still runs",
  check: (seen) => {
    assert.deepEqual(conclusions(seen.runs[0]), { minute: "failure", "parts-of-a-minute": "success" });
    const minute = onlyJob(seen, "minute");
    assert.deepEqual(stepStates(minute), { "Too long": "failure", Afterwards: "skipped", Always: "success" });
    assert.ok(minute.log.includes("afterwards"));
  },
};
