import assert from "node:assert/strict";
import type { PushedRun } from "../push-run.ts";

const rows = 40;
const heldAfter = 30;

/**
 * A workflow of so many equal jobs that count in their logs for so long, and before the last rows wait for what is given: shell that
 * prints nothing.
 */
export function numberedWorkflow(jobs: number, seconds: number, wait = "true"): string {
  const numbers = Array.from({ length: jobs }, (_, index) => index + 1).join(", ");
  const pause = (seconds / rows).toFixed(2);
  return `on: push
jobs:
  numbered:
    runs-on: [self-hosted, pod]
    strategy:
      matrix:
        n: [${numbers}]
    steps:
      - run: for i in $(seq ${rows}); do echo "row $i of $HOSTNAME"; sleep ${pause}; [ $i != ${heldAfter} ] || ${wait}; done
`;
}

/** All of them have succeeded, and each log has all rows in order, from one executor. */
export async function assertNumbered(run: PushedRun, jobs: number, deadlineMs: number): Promise<void> {
  const ended = await run.jobs(undefined, deadlineMs);
  assert.equal(ended.length, jobs);
  for (const job of ended) {
    const log = await run.log(job);
    assert.equal(job.conclusion, "success", `${job.name}: ${log.slice(-12).join("\n")}`);
    const said = log.filter((row) => /^row \d+ of /.test(row));
    const host = /of (.*)$/.exec(said[0] ?? "")?.[1] ?? "";
    assert.match(host, /^gitea-task-\d+-\d-/);
    const wanted = Array.from({ length: rows }, (_, index) => `row ${index + 1} of ${host}`);
    assert.deepEqual(said, wanted, job.name);
  }
}
