import * as z from "zod";
import { askGitea, type GiteaApi } from "../peers/gitea-api/client.ts";
import { repositoryPath, type Repository } from "../peers/gitea-api/repository.ts";
import type { GiteaJob } from "./story.ts";

// What Gitea gives for one page at most, unless its operator says something else.
const pageSize = 50;

// Gitea leaves out what is empty.
const conclusion = z.string().optional();
const jobSchema = z.object({
  id: z.int(),
  name: z.string(),
  labels: z.array(z.string()).nullish(),
  status: z.string(),
  conclusion,
  steps: z.array(z.object({ name: z.string(), status: z.string(), conclusion })).nullish(),
});
const jobsSchema = z.object({ total_count: z.int(), jobs: z.array(jobSchema).nullable() });
const taskSchema = z.object({ id: z.int(), name: z.string() });
const tasksSchema = z.object({ total_count: z.int(), workflow_runs: z.array(taskSchema).nullable() });

/** All jobs of a run, of its latest attempt, in Gitea's order. */
export async function readJobs(
  api: GiteaApi,
  repository: Repository,
  run: number,
  signal: AbortSignal,
): Promise<readonly GiteaJob[]> {
  const path = `${repositoryPath(repository)}/actions/runs/${run}/jobs`;
  const jobs = await readPages(async (page) => {
    const request = { method: "GET", path: `${path}?limit=${pageSize}&page=${page}` } as const;
    const answer = await askGitea(api, request, jobsSchema, signal);
    return { total: answer.total_count, entries: answer.jobs ?? [] };
  });
  return jobs.map(({ labels, steps, ...job }) => ({
    ...job,
    backend: labels?.find((label) => label !== "self-hosted") ?? "",
    steps: steps ?? [],
  }));
}

/** The repository's tasks: which job each of them is. A task is one attempt of a job, and has its name. */
export async function readTasks(
  api: GiteaApi,
  repository: Repository,
  signal: AbortSignal,
): Promise<readonly { readonly id: number; readonly name: string }[]> {
  const path = `${repositoryPath(repository)}/actions/tasks`;
  return await readPages(async (page) => {
    const request = { method: "GET", path: `${path}?limit=${pageSize}&page=${page}` } as const;
    const answer = await askGitea(api, request, tasksSchema, signal);
    return { total: answer.total_count, entries: answer.workflow_runs ?? [] };
  });
}

async function readPages<T>(
  read: (page: number) => Promise<{ readonly total: number; readonly entries: readonly T[] }>,
): Promise<readonly T[]> {
  const all: T[] = [];
  for (let page = 1; ; page++) {
    const { total, entries } = await read(page);
    all.push(...entries);
    if (entries.length === 0 || all.length >= total) return all;
  }
}
