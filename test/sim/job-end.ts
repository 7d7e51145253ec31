import { Result } from "../../proto/gen/runner/v1/runner_pb.ts";
import { isExcused, isSweepExcused, isTruncationExcused } from "./excuses.ts";
import type { JobFacts } from "./facts.ts";
import { violatedLog } from "./job-log.ts";
import type { Troubles } from "./troubles.ts";

/** What of a job's end does not hold. */
export function violatedEnd(mine: JobFacts, troubles: Troubles): string | undefined {
  const { job, overAt } = mine;
  if (job.over === undefined) return "I2: it is open for ever";
  const log = violatedLog(mine, isTruncationExcused({ job: mine, troubles, overAt: overAt ?? 0 }));
  if (log !== undefined) return `I11: ${log}`;
  if (job.task === undefined || overAt === undefined) return undefined;
  const told = new Set(mine.told.map(({ result }) => result));
  // Gitea takes the first; what is made of a record that was forgotten comes behind it.
  if (told.size > 1 && !mine.forgotten.record && mine.resurrected !== true)
    return `Gitea was told ${[...told].join(" and ")}`;
  const open = job.task.steps.findIndex(({ shown }) => shown === "queued" || shown === "in_progress");
  if (open !== -1) return `step ${open} stays open`;
  switch (job.over) {
    case "success":
      return violatedSuccess(mine);
    case "cancelled":
      return mine.cancelledAt === undefined ? "cancelled by nobody" : undefined;
    case "failure":
      return violatedFailure(mine, overAt, troubles);
    case "skipped":
    case "queued":
    case "in_progress":
      return `it ended as ${job.over}`;
    default:
      return job.over satisfies never;
  }
}

function violatedSuccess({ job, runs }: JobFacts): string | undefined {
  const { steps = [], outputs, id } = job.task ?? {};
  if (runs.length === 0) return "a success that never ran";
  if (steps.some(({ shown }) => shown !== "success")) return "a success with a step that is none";
  return outputs?.get("answer") === String(id) ? undefined : "a success without its output";
}

function violatedFailure(mine: JobFacts, overAt: number, troubles: Troubles): string | undefined {
  const { verdict, delivered, sweptAt } = mine;
  const of = { job: mine, troubles, overAt };
  if (sweptAt === overAt) return isSweepExcused(of) ? undefined : "Gitea ended it though nothing kept us";
  if (delivered?.result === Result.SUCCESS && !mine.forgotten.record)
    return "its success was taken from its executor, and it is shown as a failure";
  if (verdict === undefined) {
    // Said by who fetched it: an earlier try to store it may have arrived nevertheless.
    const said = mine.rows.some(({ content }) => content.includes("Reason: not_stored"));
    if (said && isExcused("not_stored", of)) return undefined;
    return "its executor says that it failed";
  }
  if (!isExcused(verdict.reason, of)) return `it failed as ${verdict.reason} though nothing happened to it`;
  return isShown(mine, verdict.reason, troubles) ? undefined : `its log does not say ${verdict.reason}`;
}

/** The person who pushed learns the reason, unless its log takes no rows any more. */
function isShown(
  { job, logClosedAt, fetchedAt = 0, overAt = 0 }: JobFacts,
  reason: string,
  troubles: Troubles,
) {
  if (logClosedAt !== undefined) return true;
  if (troubles.during(fetchedAt, overAt, ["log-store", "gitea"]) > 0) return true;
  return job.task?.log.some((row) => row.includes(`Reason: ${reason}`)) === true;
}
