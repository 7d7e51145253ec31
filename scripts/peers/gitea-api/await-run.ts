import { systemClock } from "../../../controller/platform/clock.ts";
import { within } from "../within.ts";
import type { GiteaApi } from "./client.ts";
import type { Repository } from "./repository.ts";
import type { WorkflowJob, WorkflowRun } from "./runs.ts";
import { listJobs, listRuns } from "./runs.ts";

const pollMs = 100;

/** Asks again and again until `ask` has an answer. Gitea has nothing that tells. Rejects after `deadlineMs`. */
async function ask<T>(
  what: string,
  deadlineMs: number,
  question: (signal: AbortSignal) => Promise<T | undefined>,
  signal: AbortSignal,
): Promise<T> {
  const poll = async (inner: AbortSignal) => {
    for (;;) {
      const answer = await question(inner);
      if (answer !== undefined) return answer;
      await systemClock.sleep(pollMs, inner);
    }
  };
  return await within(deadlineMs, what, poll, signal);
}

/** The run that a commit started, as soon as it fits. */
export async function awaitRun(
  api: GiteaApi,
  repository: Repository,
  wanted: {
    readonly sha: string;
    /** Any run of the commit unless given. */
    readonly fits?: (run: WorkflowRun) => boolean;
    readonly deadlineMs: number;
  },
  signal: AbortSignal,
): Promise<WorkflowRun> {
  const { sha, fits = () => true, deadlineMs } = wanted;
  const find = async (inner: AbortSignal) =>
    (await listRuns(api, repository, inner)).find((run) => run.head_sha === sha && fits(run));
  return await ask(`the run of ${sha.slice(0, 10)}`, deadlineMs, find, signal);
}

/** All jobs of a run, as soon as they fit together, for instance when each is completed. */
export async function awaitJobs(
  api: GiteaApi,
  repository: Repository,
  wanted: {
    readonly run: number;
    readonly fits: (jobs: readonly WorkflowJob[]) => boolean;
    readonly deadlineMs: number;
  },
  signal: AbortSignal,
): Promise<readonly WorkflowJob[]> {
  const find = async (inner: AbortSignal) => {
    const jobs = await listJobs(api, repository, wanted.run, inner);
    return wanted.fits(jobs) ? jobs : undefined;
  };
  return await ask(`the jobs of run ${wanted.run}`, wanted.deadlineMs, find, signal);
}
