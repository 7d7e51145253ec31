import * as z from "zod";
import { askGitea } from "../../scripts/peers/gitea-api/client.ts";
import { repositoryPath } from "../../scripts/peers/gitea-api/repository.ts";
import type { Hand } from "./workload.ts";

const time = z.iso.datetime({ offset: true }).transform((text) => Date.parse(text));
const timesSchema = z.object({ started_at: time, completed_at: time });

/** When a runner took the job and when it was over, in milliseconds since the epoch; Gitea keeps whole seconds. */
export async function jobTimes(
  { admin, repository, signal }: Hand,
  job: { readonly id: number },
): Promise<{ readonly startedAt: number; readonly completedAt: number }> {
  const path = `${repositoryPath(repository)}/actions/jobs/${job.id}`;
  const { started_at, completed_at } = await askGitea(admin, { method: "GET", path }, timesSchema, signal);
  return { startedAt: started_at, completedAt: completed_at };
}
