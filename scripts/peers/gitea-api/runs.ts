import * as z from "zod";
import type { GiteaApi } from "./client.ts";
import { askGitea, askGiteaForText } from "./client.ts";
import type { Repository } from "./repository.ts";
import { repositoryPath } from "./repository.ts";

// Gitea leaves out what is empty.
const conclusion = z.string().optional();

const runSchema = z.object({
  id: z.int(),
  run_number: z.int(),
  event: z.string(),
  /** The workflow's file and the ref that it was read from, `ci.yml@refs/heads/main`. */
  path: z.string(),
  head_sha: z.string(),
  /** `queued`, `in_progress`, `completed` … */
  status: z.string(),
  /** `success`, `failure`, `cancelled`, `skipped` once it is completed. */
  conclusion,
});
export type WorkflowRun = Readonly<z.infer<typeof runSchema>>;

const stepSchema = z.object({ name: z.string(), number: z.int(), status: z.string(), conclusion });

const jobSchema = z.object({
  id: z.int(),
  run_id: z.int(),
  name: z.string(),
  labels: z.array(z.string()).nullish(),
  status: z.string(),
  conclusion,
  /** The registered runner's name, once it has taken the job. */
  runner_name: z.string().optional(),
  steps: z.array(stepSchema).nullish(),
});
export type WorkflowJob = Readonly<z.infer<typeof jobSchema>>;

/** The repository's workflow runs, newest first (the first 50). */
export async function listRuns(
  api: GiteaApi,
  repository: Repository,
  signal: AbortSignal,
): Promise<readonly WorkflowRun[]> {
  const path = `${repositoryPath(repository)}/actions/runs?limit=50`;
  const schema = z.object({ workflow_runs: z.array(runSchema).nullable() });
  return (await askGitea(api, { method: "GET", path }, schema, signal)).workflow_runs ?? [];
}

/** One run. */
export async function readRun(
  api: GiteaApi,
  repository: Repository,
  run: number,
  signal: AbortSignal,
): Promise<WorkflowRun> {
  const path = `${repositoryPath(repository)}/actions/runs/${run}`;
  return await askGitea(api, { method: "GET", path }, runSchema, signal);
}

/** The jobs of one run, of its latest attempt (the first 50). */
export async function listJobs(
  api: GiteaApi,
  repository: Repository,
  run: number,
  signal: AbortSignal,
): Promise<readonly WorkflowJob[]> {
  const path = `${repositoryPath(repository)}/actions/runs/${run}/jobs?limit=50`;
  const schema = z.object({ jobs: z.array(jobSchema).nullable() });
  return (await askGitea(api, { method: "GET", path }, schema, signal)).jobs ?? [];
}

/** The log of one job as text; Gitea answers 404, and this rejects, while no runner has taken the job. */
export async function readJobLog(
  api: GiteaApi,
  repository: Repository,
  job: number,
  signal: AbortSignal,
): Promise<string> {
  const path = `${repositoryPath(repository)}/actions/jobs/${job}/logs`;
  return await askGiteaForText(api, { method: "GET", path }, signal);
}

/** Starts a workflow that is for `workflow_dispatch`. */
export async function dispatchWorkflow(
  api: GiteaApi,
  repository: Repository,
  dispatch: {
    /** File name below `.gitea/workflows`. */
    readonly workflow: string;
    /** `main` unless given. */
    readonly ref?: string;
    readonly inputs?: Readonly<Record<string, string>>;
  },
  signal: AbortSignal,
): Promise<void> {
  const path = `${repositoryPath(repository)}/actions/workflows/${encodeURIComponent(dispatch.workflow)}/dispatches`;
  const body = { ref: dispatch.ref ?? "main", inputs: dispatch.inputs ?? {} };
  await askGiteaForText(api, { method: "POST", path, body }, signal);
}

/** Runs all jobs of a completed run again, as a new attempt of it. */
export async function rerunRun(
  api: GiteaApi,
  repository: Repository,
  run: number,
  signal: AbortSignal,
): Promise<void> {
  const path = `${repositoryPath(repository)}/actions/runs/${run}/rerun`;
  await askGiteaForText(api, { method: "POST", path }, signal);
}
