import { mapJobs, mapRows } from "../../support/compare-workload.ts";
import type { Seen } from "../../support/workload.ts";

/** Something that is not the same with us as with the official `gitea-runner daemon`, on purpose. */
export type Difference = {
  /** Where it shows; in all of them unless given. */
  readonly workloads?: readonly string[];
  readonly what: string;
  readonly why: string;
  /** Takes it away, from either side. */
  readonly hide: (seen: Seen) => Seen;
};

/** All there are: a test demands of each that it shows, and that nothing else does. */
export const differences: readonly Difference[] = [
  {
    what: "the first row names the runner",
    why: "each assignment is a runner of its own, named after its id, so that people can ask for it",
    hide: (seen) => mapRows(seen, (row) => row.replace(/^\S+\(version:/, "<runner>(version:")),
  },
  {
    workloads: ["environment"],
    what: "a job finds the executor's own variables in its environment",
    why: "executor and job are one trust domain: a job fetches its SVID itself",
    hide: (seen) => withoutRows(seen, /^(CI|SPIFFE|RUNNER_FACADE|GITEA_RUNNER)_[A-Z_]+=$/),
  },
  {
    workloads: ["cancel", "concurrency"],
    what: "a cancelled job's step is closed as its runner reports it, with what that says at the end",
    why:
      "the controller declares that it can be told of a cancel, so Gitea waits for the runner to wind up; " +
      "gitea-runner 1.0.8 does not, and Gitea closes the job over its head",
    hide: (seen) => mapJobs(seen, (job) => (job.conclusion === "cancelled" ? { ...job, steps: [] } : job)),
  },
  {
    workloads: ["repository"],
    what: "a job that asks for a task gets an empty answer instead of an error",
    why: "its Gitea's address is the executor's own, where the runner protocol is answered for the one task",
    hide: (seen) => withoutRows(seen, /^fetching a task: \d+, task false$/),
  },
];

function withoutRows(seen: Seen, pattern: RegExp): Seen {
  const kept = (rows: readonly string[]) => rows.filter((row) => !pattern.test(row));
  return mapJobs(seen, (job) => ({
    ...job,
    log: kept(job.log),
    steps: job.steps.map((step) => ({ ...step, lines: kept(step.lines) })),
  }));
}
