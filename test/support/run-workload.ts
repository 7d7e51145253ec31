import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import * as z from "zod";
import type { Lane } from "../../controller/bootstrap/lane.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import type { GiteaAdmin } from "../../scripts/peers/gitea-api/admin.ts";
import { awaitJobs } from "../../scripts/peers/gitea-api/await-run.ts";
import { askGitea, askGiteaForText } from "../../scripts/peers/gitea-api/client.ts";
import {
  createRepository,
  pushFiles,
  type Repository,
  repositoryPath,
} from "../../scripts/peers/gitea-api/repository.ts";
import { listJobs, listRuns, readJobLog, type WorkflowJob } from "../../scripts/peers/gitea-api/runs.ts";
import type { WebSession } from "../../scripts/peers/gitea-api/web-session.ts";
import { readJobPage, readSummaries } from "./job-page.ts";
import type { RunBoard } from "./run-board.ts";
import type { Hand, Seen, SeenJob, SeenRun, Workload } from "./workload.ts";

const workloads = path.join(import.meta.dirname, "../e2e/workloads");
const pollMs = 500;
const jobsMs = 300_000;

/** Who is to run it. */
export type Place = {
  /** Begins the names of the repositories. */
  readonly name: string;
  /** As `runs-on` writes it. */
  readonly runsOn: string;
  readonly admin: GiteaAdmin;
  readonly session: WebSession;
  readonly board: RunBoard;
  /** Repositories are made one after the other: a small Gitea gets slow by many at once. */
  readonly making: Lane;
};

export type Outcome = { readonly seen: Seen; readonly hand: Hand };

/** Pushes a workload into a new private repository, does what belongs to it, and reads what became of it. */
export async function runWorkload(place: Place, workload: Workload, signal: AbortSignal): Promise<Outcome> {
  const repository = await place.making(() => pushWorkload(place, workload, signal));
  const hand = handOn(place, repository, signal);
  await workload.act?.(hand);
  await place.board.completed(repository, workload.runs ?? 1, signal);
  return { seen: await see(place, repository, signal), hand };
}

async function pushWorkload(place: Place, workload: Workload, signal: AbortSignal): Promise<Repository> {
  const { admin } = place;
  const name = `${place.name}-${workload.name}`;
  const repository = await createRepository(admin, { name, private: true }, signal);
  const tell = async (method: "PUT" | "POST", what: string, body: unknown) => {
    const request = `${repositoryPath(repository)}/actions/${what}`;
    await askGiteaForText(admin, { method, path: request, body }, signal);
  };
  for (const [key, data] of Object.entries(workload.secrets ?? {}))
    await tell("PUT", `secrets/${key}`, { data });
  for (const [key, value] of Object.entries(workload.variables ?? {}))
    await tell("POST", `variables/${key}`, { value });
  const files = { ...(await repositoryFiles(workload.name, place.runsOn)), ...workload.files };
  await pushFiles(admin, repository, { files, message: `Begin ${workload.name}` }, signal);
  return repository;
}

async function repositoryFiles(name: string, runsOn: string): Promise<Record<string, string>> {
  const root = path.join(workloads, name, "repository");
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const texts = files.map(async (entry) => {
    const file = path.join(entry.parentPath, entry.name);
    return [path.relative(root, file), (await readFile(file, "utf8")).replaceAll("RUNS_ON", runsOn)];
  });
  return Object.fromEntries((await Promise.all(texts)) as [string, string][]);
}

function handOn(place: Place, repository: Repository, signal: AbortSignal): Hand {
  const { admin, session } = place;
  const jobs: Hand["jobs"] = async (run, fits) =>
    await awaitJobs(admin, repository, { run, fits, deadlineMs: jobsMs }, signal);
  const log = async (job: WorkflowJob) =>
    await readJobLog(admin, repository, job.id, signal).then(rowsOf, () => [] as string[]);
  return {
    admin,
    session,
    repository,
    signal,
    jobs,
    newestRun: async () => {
      for (;;) {
        const [run] = await listRuns(admin, repository, signal);
        if (run !== undefined) return run.id;
        await systemClock.sleep(pollMs, signal);
      }
    },
    said: async (run, name, line) => {
      for (;;) {
        const job = (await listJobs(admin, repository, run, signal)).find((each) => each.name === name);
        if (job !== undefined && (await log(job)).includes(line)) return;
        await systemClock.sleep(pollMs, signal);
      }
    },
    push: async (files, message) => {
      await pushFiles(admin, repository, { files, message }, signal);
    },
    rerunFailed: async (run) => {
      const request = `${repositoryPath(repository)}/actions/runs/${run}/rerun-failed-jobs`;
      await askGiteaForText(admin, { method: "POST", path: request }, signal);
    },
  };
}

const attemptSchema = z.object({ run_attempt: z.int() });

async function see(place: Place, repository: Repository, signal: AbortSignal): Promise<Seen> {
  const { admin, session } = place;
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

/** The rows of a log without their times. */
function rowsOf(text: string): string[] {
  const rows = text.split("\n");
  if (rows.at(-1) === "") rows.pop();
  return rows.map((row) => row.replace(/^\S+Z /, ""));
}
