import assert from "node:assert/strict";
import { conclusions, onlyJob, stepStates, type Workload } from "../../../support/workload.ts";

export const conditions: Workload = {
  name: "conditions",
  title: "failed and skipped steps and needs, always(), failure(), if: false, continue-on-error",
  check: (seen) => {
    assert.deepEqual(conclusions(seen.runs[0]), {
      fails: "failure",
      "left-out": "skipped",
      "left-out-too": "skipped",
      always: "success",
      "on-failure": "success",
      "switched-off": "skipped",
      tolerant: "success",
    });
    assert.deepEqual(stepStates(onlyJob(seen, "fails")), {
      Before: "success",
      Fails: "failure",
      "Left out": "skipped",
      "On failure": "success",
      Always: "success",
    });
    const { log } = onlyJob(seen, "always");
    assert.ok(log.includes("fails: failure, after-the-failure"), log.join("\n"));
    assert.ok(log.includes("left-out: skipped"), log.join("\n"));
    assert.ok(onlyJob(seen, "tolerant").log.includes("outcome failure, conclusion success"));
    for (const name of ["left-out", "left-out-too"]) assert.deepEqual(onlyJob(seen, name).log, [], name);
    // Gitea leaves the condition of a job without needs to the runner.
    assert.ok(!onlyJob(seen, "switched-off").log.includes("never"));
  },
};
