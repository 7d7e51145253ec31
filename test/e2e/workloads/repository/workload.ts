import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { askGiteaForText } from "../../../../scripts/peers/gitea-api/client.ts";
import { repositoryPath } from "../../../../scripts/peers/gitea-api/repository.ts";
import { onlyJob, outputOf, type Workload } from "../../../support/workload.ts";

/** 2 MB, so that a clone is more than one chunk. */
const large = Array.from(
  { length: 40_000 },
  (_, index) => `line ${index} ${sha256(String(index)).slice(0, 40)}\n`,
).join("");

export const cloneAndPush: Workload = {
  name: "repository",
  title: "a job clones its private repository, pushes a branch back and uses the API, with its own token",
  tools: ["git"],
  files: { "large.txt": large },
  check: async (seen, { admin, repository, signal }) => {
    const job = onlyJob(seen, "clone");
    assert.equal(job.conclusion, "success", job.log.join("\n"));
    assert.deepEqual(outputOf(job, "Clone"), ["Begin repository", `${sha256(large)}  large.txt`]);
    assert.deepEqual(outputOf(job, "Push a branch back"), ["refs/heads/from-the-job"]);
    assert.deepEqual(outputOf(job, "Ask the API"), [
      "branch: 200, Made by the job",
      "issue: 201, Opened by the job",
      "nothing: 404",
    ]);
    const path = `${repositoryPath(repository)}/raw/made-by-the-job.txt?ref=from-the-job`;
    const pushed = await askGiteaForText(admin, { method: "GET", path }, signal);
    assert.equal(pushed.trimEnd().split("\n").length, 2_000);
  },
};

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
