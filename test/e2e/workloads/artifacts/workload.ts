import assert from "node:assert/strict";
import { conclusions, onlyJob, type SeenJob, type Workload } from "../../../support/workload.ts";

export const artifacts: Workload = {
  name: "artifacts",
  title: "an artifact of 5 MB goes up in blocks and comes down in the next job",
  tools: ["git", "awk"],
  check: (seen) => {
    const { put, get } = { put: onlyJob(seen, "put"), get: onlyJob(seen, "get") };
    assert.deepEqual(
      conclusions(seen.runs[0]),
      { put: "success", get: "success" },
      [...put.log, ...get.log].join("\n"),
    );
    assert.ok(put.log.includes("put 5000000 bytes in 5 blocks"));
    assert.ok(get.log.includes("listed: letters, 5000000 bytes"), get.log.join("\n"));
    const sum = (job: SeenJob) => job.log.find((row) => /^[0-9a-f]{64} {2}letters$/.test(row));
    assert.ok(sum(put) !== undefined);
    assert.equal(sum(get), sum(put));
  },
};
