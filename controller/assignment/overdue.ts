import type { AssignmentEvent } from "./event.ts";
import { failureFor } from "./failure.ts";
import type { FailureReason } from "./failure-reasons.ts";
import type { AssignmentRecord } from "./record.ts";
import type { Times } from "./times.ts";

/**
 * When an executor that begins now has to be over: the backend's own limit, or a margin before Gitea ends the task.
 * Milliseconds since the epoch.
 */
export function deadlineOf(
  { fetchedAt }: Pick<AssignmentRecord, "fetchedAt">,
  backendTimeoutMs: number,
  now: number,
  times: Pick<Times, "endlessMs" | "endlessMarginMs">,
): number {
  return Math.min(now + backendTimeoutMs, fetchedAt + times.endlessMs - times.endlessMarginMs);
}

/** Whether a task that begins now would get enough time to be worth it. */
export function hasTimeLeft(record: Pick<AssignmentRecord, "fetchedAt">, now: number, times: Times): boolean {
  return deadlineOf(record, Infinity, now, times) - now >= times.minimumRunMs;
}

/**
 * The exit by time that every phase has: what happens to an assignment because nothing else did for too long.
 * `heardAt`: when the facade last heard of its executor, at the earliest when this controller began to lead.
 * A finished one has its grace in lifecycle/next-step.ts, where its executors are known.
 */
export function overdue(
  record: AssignmentRecord,
  heardAt: number,
  now: number,
  times: Times,
): AssignmentEvent | undefined {
  const { phase } = record;
  switch (phase.name) {
    case "queued":
      return hasTimeLeft(record, now, times) ? undefined : noTimeLeft(record, now);
    case "starting":
      if (now >= phase.deadlineAt) return noTimeLeft(record, now);
      if (now - phase.since < times.pendingMs + times.claimMs) return undefined;
      return {
        type: "attempt_lost",
        attempt: phase.attempt,
        failure: failureFor("too_slow", `not claimed after ${minutes(now - phase.since)}`),
        burnt: true,
        retryAt: now,
      };
    case "adopted":
      if (now >= latestDeadline(record, times) + times.deadlineMarginMs)
        return failed("record_lost", `it was still there ${minutes(now - record.fetchedAt)} after it began`);
      if (now - Math.max(heardAt, phase.since) < times.silenceMs) return undefined;
      return failed("record_lost", `nothing heard for ${minutes(times.silenceMs)}`);
    case "claimed":
      if (now >= (phase.deadlineAt ?? latestDeadline(record, times)) + times.deadlineMarginMs)
        return failed("deadline", `it ran for ${minutes(now - phase.claim.at)}`);
      if (phase.cancelledAt !== undefined && now - phase.cancelledAt >= times.cancelGraceMs)
        return failed(
          "cancel_ignored",
          `its steps still ran ${minutes(times.cancelGraceMs)} later`,
          "cancelled",
        );
      if (now - Math.max(heardAt, phase.claim.at) < times.silenceMs) return undefined;
      return failed("silent", `nothing heard for ${minutes(times.silenceMs)}`);
    case "ending":
      return now - phase.since < times.reportGiveUpMs ? undefined : { type: "report_given_up" };
    case "finished":
      return undefined;
    default:
      return phase satisfies never;
  }
}

/** No executor of the task has a later one. Stands in for a deadline that was lost with its record. */
function latestDeadline(record: Pick<AssignmentRecord, "fetchedAt">, times: Times): number {
  return deadlineOf(record, Infinity, 0, times);
}

function failed(
  reason: FailureReason,
  evidence: string,
  result: "failure" | "cancelled" = "failure",
): AssignmentEvent {
  return { type: "failed", failure: failureFor(reason, evidence), result };
}

function noTimeLeft({ fetchedAt }: AssignmentRecord, now: number): AssignmentEvent {
  const failure = failureFor("no_time_left", `it has waited for ${minutes(now - fetchedAt)}`);
  return { type: "failed", failure, result: "failure", unclaimed: true };
}

/** For people: whole minutes, or seconds where a minute is too coarse. */
function minutes(ms: number): string {
  return ms < 120_000 ? `${Math.round(ms / 1000)} s` : `${Math.round(ms / 60_000)} min`;
}
