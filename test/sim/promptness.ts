import type { JobFacts } from "./facts.ts";
import type { Trouble, Troubles } from "./troubles.ts";

/** A cancel is acted on within this. */
const cancelMs = 20_000;
/** A start failure is in the job's log within this. */
const startFailureMs = 30_000;
/** Answers take their time also where nothing is wrong. */
const slackMs = 1_000;
/** For so long after a trouble something may still be late by it: pauses between tries grow up to that. */
const recoveryMs = 4 * 60_000;

const allButCluster: readonly Trouble[] = [
  "gitea",
  "queue",
  "records",
  "backend",
  "facade",
  "leader",
  "log-store",
  "stream",
  "bucket",
  "executor",
  "clock",
];

/** I6, where nothing else is wrong: an unclaimed job is over, the runner of a claimed one winds up. */
export function violatedCancel(mine: JobFacts, troubles: Troubles): string | undefined {
  const { cancelledAt, fetchedAt, overAt, windsUpAt, hits } = mine;
  if (cancelledAt === undefined || fetchedAt === undefined || hits.length > 0) return undefined;
  if (troubles.during(cancelledAt - recoveryMs, cancelledAt + cancelMs) > 0) return undefined;
  const actedOn = Math.min(overAt ?? Infinity, windsUpAt ?? Infinity);
  if (actedOn <= cancelledAt + cancelMs + slackMs) return undefined;
  return `I6: its cancel is acted on after ${(actedOn - cancelledAt) / 1000} s`;
}

/** I7, where nothing but the cluster is wrong. */
export function violatedStartFailure(mine: JobFacts, troubles: Troubles): string | undefined {
  const { startFailures, rows, overAt = Infinity, claimedAt = Infinity } = mine;
  for (const [index, { at, reason, isKnown }] of startFailures.entries()) {
    if (!isKnown) continue;
    const until = at + startFailureMs + slackMs;
    if (troubles.during(at - recoveryMs, until, allButCluster) > 0) continue;
    // Rows come one at a time, not too often.
    const before = startFailures
      .slice(0, index)
      .some((one) => one.reason !== reason && at - one.at < 2 * startFailureMs);
    if (before || overAt <= until || claimedAt <= until) continue;
    const told = rows.some((row) => row.at <= until && row.content.includes(`Reason: ${reason}`));
    if (!told) return `I7: its log does not say ${reason} in time`;
  }
  return undefined;
}
