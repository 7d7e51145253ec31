import { awaitJobs, awaitRun } from "../../scripts/peers/gitea-api/await-run.ts";
import type { GiteaApi } from "../../scripts/peers/gitea-api/client.ts";
import { createRepository, pushFiles, type Repository } from "../../scripts/peers/gitea-api/repository.ts";
import { readJobLog, type WorkflowJob } from "../../scripts/peers/gitea-api/runs.ts";

export type PushedRun = {
  readonly repository: Repository;
  readonly id: number;
  /** All jobs, as soon as they fit; completed ones unless given. Rejects after 180 s unless told otherwise. */
  jobs(
    fits?: (jobs: readonly WorkflowJob[]) => boolean,
    deadlineMs?: number,
  ): Promise<readonly WorkflowJob[]>;
  /** A job's log, each line without its time. */
  log(job: WorkflowJob): Promise<readonly string[]>;
};

const jobsMs = 180_000;
const soon = (ms = jobsMs) => AbortSignal.timeout(ms);

/** Pushes a workflow into a new repository of this name; resolves with how to wait for its jobs. */
export async function pushRun(admin: GiteaApi, name: string, workflow: string): Promise<PushedRun> {
  const repository = await createRepository(admin, { name }, soon());
  return await pushWorkflow(admin, repository, workflow);
}

/** The same into one that is there. */
export async function pushWorkflow(
  admin: GiteaApi,
  repository: Repository,
  workflow: string,
): Promise<PushedRun> {
  const files = { ".gitea/workflows/test.yml": workflow };
  const { sha } = await pushFiles(admin, repository, { files }, soon());
  const run = await awaitRun(admin, repository, { sha, deadlineMs: jobsMs }, soon());
  const completed = (jobs: readonly WorkflowJob[]) =>
    jobs.length > 0 && jobs.every(({ status }) => status === "completed");
  return {
    repository,
    id: run.id,
    jobs: (fits = completed, deadlineMs = jobsMs) =>
      awaitJobs(admin, repository, { run: run.id, fits, deadlineMs }, soon(deadlineMs)),
    log: async (job) => {
      const text = await readJobLog(admin, repository, job.id, soon());
      return text.split("\n").map((line) => line.replace(/^\S+Z /, ""));
    },
  };
}
