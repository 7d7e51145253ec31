import type { GiteaAdmin } from "../../scripts/peers/gitea-api/admin.ts";
import type { Repository } from "../../scripts/peers/gitea-api/repository.ts";
import type { WorkflowJob } from "../../scripts/peers/gitea-api/runs.ts";
import type { WebSession } from "../../scripts/peers/gitea-api/web-session.ts";
import type { PageStep } from "./job-page.ts";

/**
 * Something that people do in workflows. Its files lie in `test/e2e/workloads/<name>/repository`; where they say
 * `RUNS_ON` there comes the label of whoever is to run it.
 */
export type Workload = {
  /** Of the folder, and of the repository in Gitea. */
  readonly name: string;
  /** What is shown by it, as the end of a test's title. */
  readonly title: string;
  /** Programs that it needs and that not every machine has. */
  readonly tools?: readonly string[];
  /** Texts by path, of files that are made rather than kept. */
  readonly files?: Readonly<Record<string, string>>;
  readonly secrets?: Readonly<Record<string, string>>;
  readonly variables?: Readonly<Record<string, string>>;
  /** How many runs there are in the end; 1 unless given. */
  readonly runs?: number;
  /** What a person does while it runs. */
  readonly act?: (hand: Hand) => Promise<void>;
  /** Throws if it did not go as it has to go, with whatever runner. */
  readonly check: (seen: Seen, hand: Hand) => void | Promise<void>;
};

/** What a person can do with a repository while its workflow runs. */
export type Hand = {
  readonly admin: GiteaAdmin;
  readonly session: WebSession;
  readonly repository: Repository;
  readonly signal: AbortSignal;
  /** The repository's newest run, as soon as there is one. */
  readonly newestRun: () => Promise<number>;
  /** The jobs of a run, as soon as they fit. */
  readonly jobs: (
    run: number,
    fits: (jobs: readonly WorkflowJob[]) => boolean,
  ) => Promise<readonly WorkflowJob[]>;
  /** A job's log, each row without its time; empty while there is none. */
  readonly log: (job: WorkflowJob) => Promise<readonly string[]>;
  /** Resolves when the log of a job has this line. */
  readonly said: (run: number, job: string, line: string) => Promise<void>;
  readonly push: (files: Readonly<Record<string, string>>, message: string) => Promise<void>;
  readonly rerunFailed: (run: number) => Promise<void>;
};

/** What Gitea shows of a workload when it is over. */
export type Seen = {
  /** Oldest first. */
  readonly runs: readonly SeenRun[];
};

export type SeenRun = {
  readonly id: number;
  readonly conclusion: string | undefined;
  readonly attempt: number;
  /** By name. */
  readonly jobs: Readonly<Record<string, SeenJob>>;
  /** By job, as HTML. */
  readonly summaries: Readonly<Record<string, string>>;
};

export type SeenJob = {
  readonly conclusion: string | undefined;
  /** `Set up job` and `Complete job` among them; none of a job that nobody ran. */
  readonly steps: readonly PageStep[];
  /** Each row without its time. */
  readonly log: readonly string[];
};

/** A job of the only run. */
export function onlyJob(seen: Seen, name: string): SeenJob {
  const [run, ...others] = seen.runs;
  if (run === undefined || others.length > 0) throw new Error(`there are ${seen.runs.length} runs`);
  return jobOf(run, name);
}

export function jobOf(run: SeenRun, name: string): SeenJob {
  const job = run.jobs[name];
  if (job === undefined) throw new Error(`there is no job ${name}, only ${Object.keys(run.jobs).join(", ")}`);
  return job;
}

/** A step with the lines that its script printed: without those by which gitea-runner shows the script. */
export function outputOf(job: SeenJob, step: string): readonly string[] {
  const found = job.steps.find(({ name }) => name === step);
  if (found === undefined) throw new Error(`there is no step ${step}`);
  const shown = found.lines.indexOf("::endgroup::");
  return found.lines.slice(shown + 1);
}

/** Names and states of the steps that the workflow names. */
export function stepStates(job: SeenJob): Readonly<Record<string, string>> {
  return Object.fromEntries(job.steps.slice(1, -1).map(({ name, status }) => [name, status]));
}

/** Conclusions by job. */
export function conclusions(run: SeenRun | undefined): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries(
    Object.entries(run?.jobs ?? {}).map(([name, { conclusion }]) => [name, conclusion]),
  );
}
