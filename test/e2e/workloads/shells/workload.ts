import assert from "node:assert/strict";
import { onlyJob, outputOf, type Workload } from "../../../support/workload.ts";

export const shells: Workload = {
  name: "shells",
  title: "bash, sh, Python and a shell of one's own, with GITHUB_ENV, GITHUB_PATH and working folders",
  tools: ["python3"],
  check: (seen) => {
    const job = onlyJob(seen, "shells");
    assert.equal(job.conclusion, "success");
    const output = (step: string) => outputOf(job, step);
    assert.deepEqual(output("Default"), ["bash by default: workflow, job, step"]);
    assert.deepEqual(
      output("Bash").map((line) => line.replaceAll(/\s+/g, " ")),
      ["in below", "errexit on", "pipefail on"],
    );
    assert.deepEqual(output("Sh"), ["sh: not bash"]);
    assert.deepEqual(output("Python").toSorted(), ["python 3 by sh", "to stderr"]);
    assert.deepEqual(output("Python, called as one wants"), ["1"]);
    assert.deepEqual(output("A program of its own"), ["found on PATH"]);
    assert.deepEqual(output("Node"), ["node 2"]);
  },
};
