import assert from "node:assert/strict";
import { onlyJob, outputOf, type Workload } from "../../../support/workload.ts";

const count = 100_000;

export const manyLines: Workload = {
  name: "many-lines",
  title: "100,000 lines, in order, complete and once",
  check: (seen) => {
    const job = onlyJob(seen, "count");
    assert.equal(job.conclusion, "success");
    const expected = Array.from({ length: count }, (_, index) => `row ${index + 1}`);
    // Not deepEqual: its message about so many rows takes minutes.
    const firstWrong = (rows: readonly string[]) => rows.findIndex((row, index) => row !== expected[index]);
    for (const rows of [outputOf(job, "Count"), job.log.filter((row) => row.startsWith("row "))]) {
      assert.equal(rows.length, count);
      const wrong = firstWrong(rows);
      assert.equal(wrong, -1, `line ${wrong} is ${rows[wrong]}`);
    }
  },
};
