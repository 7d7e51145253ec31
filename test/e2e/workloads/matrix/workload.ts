import assert from "node:assert/strict";
import { conclusions, onlyJob, type Workload } from "../../../support/workload.ts";

export const matrix: Workload = {
  name: "matrix",
  title: "a matrix, one leg of which fails",
  check: (seen) => {
    assert.deepEqual(conclusions(seen.runs[0]), {
      "leg (1)": "success",
      "leg (2)": "failure",
      "leg (more, 3)": "success",
      after: "success",
    });
    assert.ok(onlyJob(seen, "leg (more, 3)").log.includes("size 3, extra more"));
    assert.ok(onlyJob(seen, "after").log.includes("legs together: failure"));
  },
};
