import type { FailureReason } from "../../controller/assignment/failure-reasons.ts";
import { defaultTimes, maxAttempts } from "../../controller/assignment/times.ts";
import { defaultTimes as bootstrapTimes } from "../../controller/bootstrap/times.ts";
import type { JobFacts } from "./facts.ts";
import { simLimits } from "./sim-times.ts";
import type { Trouble, Troubles } from "./troubles.ts";

/** What may have failed a job: what was done to it and what was wrong in the world until it was over. */
type Case = { readonly job: JobFacts; readonly troubles: Troubles; readonly overAt: number };

type Excuse = (of: Case) => boolean;

const minute = 60_000;

/** Its own executor was hit by just this. */
const hit: (what: FailureReason) => Excuse =
  (what) =>
  ({ job }) =>
    job.hits.some((one) => one.what === what);

/** The cluster has said this of one of its executors. */
const refused: (reason: FailureReason) => Excuse =
  (reason) =>
  ({ job }) =>
    job.startFailures.some((one) => one.reason === reason);

/** There was trouble of these kinds, or its executor stood still, for nearly all of the last `ms`. */
function kept({ job, troubles, overAt }: Case, ms: number, what?: readonly Trouble[]): boolean {
  // What decides needs some time to notice, and to be told.
  const from = overAt - ms - 2 * minute;
  const stopped = job.hits
    .filter((one) => one.what === "stopped" && one.at + one.ms >= from)
    .reduce((sum, one) => sum + one.ms, 0);
  return stopped + troubles.during(from, overAt, what) >= ms - minute;
}

/** Between an executor and Gitea. */
const way: readonly Trouble[] = ["facade", "leader", "gitea"];
const toFacade: readonly Trouble[] = ["facade", "leader"];

/** No list shows it any more, and it was not heard either, for as long as it takes to believe that. */
function isSilentGhost({ job, troubles, overAt }: Case): boolean {
  const quiet = stoppedMs(job) + troubles.during(overAt - 3 * minute, overAt, toFacade);
  return job.hits.some(({ what }) => what === "ghost") && quiet >= defaultTimes.absentMs / 2;
}

/** A reason that is missing here is never right: nothing in the simulation causes it. */
const excuses: Partial<Readonly<Record<FailureReason, Excuse>>> = {
  oom: hit("oom"),
  evicted: hit("evicted"),
  node_lost: hit("node_lost"),
  killed: hit("killed"),
  vanished: (of) => hit("vanished")(of) || isSilentGhost(of),
  // One that is gone is silent as well, if its backend does not say so.
  silent: (of) =>
    kept(of, defaultTimes.silenceMs, of.job.hits.length > 0 ? ["facade", "leader", "backend"] : toFacade),
  // Its result was not taken for as long as the bootstrap tries.
  no_result: (of) => kept(of, bootstrapTimes.deliver, ["facade", "leader", "records"]),
  record_lost: (of) =>
    of.job.forgotten.record &&
    (of.job.hits.length > 0 || of.job.delivered !== undefined || kept(of, defaultTimes.silenceMs, toFacade)),
  queue_lost: ({ job }) => job.forgotten.message,
  not_stored: ({ job, troubles, overAt }) =>
    troubles.during(job.fetchedAt ?? 0, overAt, ["queue"]) > 0 &&
    troubles.during(job.fetchedAt ?? 0, overAt, ["leader"]) > 0,
  image_invalid: refused("image_invalid"),
  attempts_exhausted: (of) => burnt(of) >= maxAttempts,
};

/** How many attempts may have been lost in a way that counts. */
function burnt({ job, troubles, overAt }: Case): number {
  const ghosts = job.hits.filter(({ what }) => what === "ghost").length;
  const slow = troubles.during(job.fetchedAt ?? 0, overAt) + stoppedMs(job);
  return job.startFailures.length + ghosts + Math.floor(slow / (defaultTimes.startMs - minute));
}

function stoppedMs({ hits }: JobFacts): number {
  return hits.reduce((sum, { ms }) => sum + ms, 0);
}

/** Whether a verdict of ours has a cause in what happened to this very job. */
export function isExcused(reason: FailureReason, of: Case): boolean {
  return excuses[reason]?.(of) ?? false;
}

/** Whether the last rows of a success may be lost with its executor, which still held them. */
export function isTruncationExcused(of: Case): boolean {
  return of.job.hits.length > 0 || kept(of, bootstrapTimes.deliver, way);
}

/**
 * Whether Gitea may have ended it by itself: nobody knew it (any more), or what kept it alive could not reach Gitea
 * for as long as that keeps a silent task.
 */
export function isSweepExcused(of: Case): boolean {
  const { job, troubles } = of;
  const { fetchedAt = 0, storedAt, recordedAt, forgotten } = job;
  // Handed out once: lost with the answer, or with a process that had not stored it yet.
  if (storedAt === undefined)
    return (
      troubles.during(fetchedAt - 1, fetchedAt + minute, ["gitea"]) > 0 ||
      troubles.during(fetchedAt - 1, of.overAt, ["leader"]) > 0
    );
  if (forgotten.message && (forgotten.record || recordedAt === undefined)) return true;
  return kept(of, simLimits.zombieMs, job.hits.length > 0 ? undefined : way);
}
