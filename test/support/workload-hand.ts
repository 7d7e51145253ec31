import { systemClock } from "../../controller/platform/clock.ts";
import type { GiteaAdmin } from "../../scripts/peers/gitea-api/admin.ts";
import { awaitJobs } from "../../scripts/peers/gitea-api/await-run.ts";
import { askGiteaForText } from "../../scripts/peers/gitea-api/client.ts";
import { pushFiles, type Repository, repositoryPath } from "../../scripts/peers/gitea-api/repository.ts";
import { listJobs, listRuns, readJobLog } from "../../scripts/peers/gitea-api/runs.ts";
import type { WebSession } from "../../scripts/peers/gitea-api/web-session.ts";
import type { Hand } from "./workload.ts";

const pollMs = 500;
const jobsMs = 300_000;

/** Everything that a person does with this repository. */
export function handOn(
  { admin, session }: { readonly admin: GiteaAdmin; readonly session: WebSession },
  repository: Repository,
  signal: AbortSignal,
): Hand {
  const jobs: Hand["jobs"] = async (run, fits) =>
    await awaitJobs(admin, repository, { run, fits, deadlineMs: jobsMs }, signal);
  const log: Hand["log"] = async (job) =>
    await readJobLog(admin, repository, job.id, signal).then(rowsOf, () => [] as string[]);
  return {
    admin,
    session,
    repository,
    signal,
    jobs,
    log,
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

/** The rows of a log without their times. */
export function rowsOf(text: string): string[] {
  const rows = text.split("\n");
  if (rows.at(-1) === "") rows.pop();
  return rows.map((row) => row.replace(/^\S+Z /, ""));
}
