import * as z from "zod";
import type { Repository } from "../../scripts/peers/gitea-api/repository.ts";
import type { WebSession } from "../../scripts/peers/gitea-api/web-session.ts";

const answerDeadlineMs = 60_000;

const pageSchema = z.object({
  state: z.object({
    run: z.object({
      jobSummaries: z.array(z.object({ jobName: z.string(), summaryHTML: z.string() })).optional(),
    }),
    currentJob: z.object({
      detail: z.string(),
      steps: z.array(z.object({ summary: z.string(), status: z.string() })).nullable(),
    }),
  }),
  logs: z.object({
    stepsLog: z
      .array(z.object({ step: z.int(), lines: z.array(z.object({ message: z.string() })) }))
      .nullish(),
  }),
});

export type PageStep = {
  readonly name: string;
  /** `success`, `failure`, `cancelled`, `skipped`, `running`, `waiting`. */
  readonly status: string;
  /** What opens under the step. */
  readonly lines: readonly string[];
};

/**
 * The steps of a job with their lines, as a person sees them on its page, `Set up job` and `Complete job` among
 * them: the REST API has the whole log only, and does not say which lines are whose.
 */
export async function readJobPage(
  session: WebSession,
  repository: Repository,
  job: { readonly run_id: number; readonly id: number },
  signal: AbortSignal,
): Promise<{ readonly detail: string; readonly steps: readonly PageStep[] }> {
  const page = `${runPage(repository, job.run_id)}/jobs/${job.id}`;
  const { state } = await ask(session, page, [], signal);
  const { detail } = state.currentJob;
  const steps = state.currentJob.steps ?? [];
  const cursors = steps.map((_, step) => ({ step, cursor: 0, expanded: true }));
  const { logs } = await ask(session, page, cursors, signal);
  const lines = new Map(logs.stepsLog?.map((log) => [log.step, log.lines.map(({ message }) => message)]));
  return {
    detail,
    steps: steps.map(({ summary, status }, step) => ({
      name: summary,
      status,
      lines: lines.get(step) ?? [],
    })),
  };
}

/** The summaries that a run's page shows, by job, as HTML. */
export async function readSummaries(
  session: WebSession,
  repository: Repository,
  run: number,
  signal: AbortSignal,
): Promise<Readonly<Record<string, string>>> {
  const { state } = await ask(session, runPage(repository, run), [], signal);
  const summaries = state.run.jobSummaries ?? [];
  return Object.fromEntries(summaries.map(({ jobName, summaryHTML }) => [jobName, summaryHTML]));
}

function runPage({ owner, name }: Repository, run: number): string {
  return `/${encodeURIComponent(owner)}/${encodeURIComponent(name)}/actions/runs/${run}`;
}

async function ask(session: WebSession, path: string, logCursors: readonly unknown[], signal: AbortSignal) {
  const response = await fetch(`${session.url}${path}`, {
    method: "POST",
    headers: { cookie: session.cookie, "content-type": "application/json" },
    body: JSON.stringify({ logCursors }),
    redirect: "manual",
    signal: AbortSignal.any([signal, AbortSignal.timeout(answerDeadlineMs)]),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`POST ${path}: ${response.status} ${text.slice(0, 300)}`);
  return pageSchema.parse(JSON.parse(text));
}
