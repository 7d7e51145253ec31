import { describeError } from "../../controller/platform/errors.ts";
import { isAbortOf } from "../../controller/platform/signal.ts";
import { readJobLog } from "../peers/gitea-api/runs.ts";
import { secretName } from "./example.ts";
import type { Place } from "./place.ts";
import type { GiteaJob, Story } from "./story.ts";
import { UserError } from "./user-error.ts";

const namedJobs = 6;
const shownLogs = 3;
const shownLines = 15;

/**
 * Says what Gitea says of the jobs, shows the logs of failed ones, and what became of the secret. Rejects if the
 * secret can be read in a log.
 */
export async function tellResult(
  { api, repository }: Place,
  story: Story,
  { secret, say }: { readonly secret: string; readonly say: (line: string) => void },
  signal: AbortSignal,
): Promise<void> {
  for (const line of resultLines(story.jobs)) say(line);
  const failed = story.jobs.filter(({ conclusion }) => conclusion === "failure");
  for (const job of failed.slice(0, shownLogs)) {
    const log = await logOf(job);
    say(`  the end of the log of ${job.name}:`);
    for (const line of log.trimEnd().split("\n").slice(-shownLines)) say(`    ${line}`);
  }
  for (const job of story.jobs.filter(({ steps }) => steps.some(({ name }) => name === "Show a secret"))) {
    const verdict = secretInLog(await logOf(job), secret);
    if (verdict === "told") throw new UserError(`the log of ${job.name} tells the secret ${secretName}`);
    if (verdict === "masked") say(`  the log of ${job.name} shows the secret ${secretName} as ***`);
  }

  async function logOf(job: GiteaJob): Promise<string> {
    try {
      return await readJobLog(api, repository, job.id, signal);
    } catch (error) {
      if (isAbortOf(signal, error)) throw error;
      return `(Gitea does not give it: ${describeError(error)})`;
    }
  }
}

/** What Gitea says, in a line or a few. */
export function resultLines(jobs: readonly GiteaJob[]): readonly string[] {
  const words = Map.groupBy(jobs, ({ conclusion }) => conclusion ?? "unknown");
  const said =
    jobs.length <= namedJobs
      ? jobs.map(({ name, conclusion }) => `${name} ${conclusion ?? "unknown"}`)
      : [...words].map(([word, those]) => `${those.length} ${word}`);
  const allowed = jobs
    .filter(({ conclusion }) => conclusion === "success")
    .flatMap(({ name, steps }) =>
      steps
        .filter((step) => step.conclusion === "failure")
        .map((step) => `  ${name}: the step "${step.name}" failed, as it may (continue-on-error)`),
    );
  return [`Gitea says: ${said.join(", ")}`, ...allowed];
}

/** What a job's log makes of a secret that the job printed. */
export function secretInLog(log: string, secret: string): "told" | "masked" | "absent" {
  if (log.includes(secret)) return "told";
  return log.includes("***") ? "masked" : "absent";
}
