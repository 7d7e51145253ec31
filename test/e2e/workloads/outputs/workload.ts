import assert from "node:assert/strict";
import { conclusions, onlyJob, outputOf, type Workload } from "../../../support/workload.ts";

export const outputs: Workload = {
  name: "outputs",
  title: "outputs of up to 1 MiB reach the job that needs them",
  tools: ["awk"],
  check: (seen) => {
    assert.deepEqual(conclusions(seen.runs[0]), { produce: "success", consume: "success" });
    const produced = outputOf(onlyJob(seen, "produce"), "Some");
    const consume = onlyJob(seen, "consume");
    assert.deepEqual(outputOf(consume, "Small ones"), [
      "small: Grüße, 世界 = 🌍",
      "lines: first",
      "second",
      "empty: ''",
      "missing: ''",
    ]);
    const sums = produced.map((line) => line.replace(": ", ": 1048576 bytes, "));
    assert.equal(sums.length, 2);
    assert.deepEqual(outputOf(consume, "Large ones"), sums);
  },
};
