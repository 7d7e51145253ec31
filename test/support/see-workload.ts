import * as z from "zod";
import { askGitea } from "../../scripts/peers/gitea-api/client.ts";
import { repositoryPath } from "../../scripts/peers/gitea-api/repository.ts";
import { listJobs, listRuns, readJobLog } from "../../scripts/peers/gitea-api/runs.ts";
import { readJobPage, readSummaries } from "./job-page.ts";
import { rowsOf } from "./workload-hand.ts";
import type { Hand, Seen, SeenJob, SeenRun } from "./workload.ts";

const attemptSchema = z.object({ run_attempt: z.int() });

/** What Gitea shows of all runs of a repository, its pages and its API together. */
export async function seeWorkload({ admin, session, repository, signal }: Hand): Promise<Seen> {
  const runs: SeenRun[] = [];
  for (const { id, conclusion } of (await listRuns(admin, repository, signal)).toReversed()) {
    const jobs: Record<string, SeenJob> = {};
    for (const job of await listJobs(admin, repository, id, signal)) {
      const { steps } = await readJobPage(session, repository, job, signal);
      const ran = steps.length > 0;
      const log = ran ? rowsOf(await readJobLog(admin, repository, job.id, signal)) : [];
      jobs[job.name] = { conclusion: job.conclusion, steps, log };
    }
    const summaries = await readSummaries(session, repository, id, signal);
    const request = `${repositoryPath(repository)}/actions/runs/${id}`;
    const asked = await askGitea(admin, { method: "GET", path: request }, attemptSchema, signal);
    runs.push({ id, conclusion, attempt: asked.run_attempt, jobs, summaries });
  }
  return { runs };
}
