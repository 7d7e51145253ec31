import type { AssignmentEvent } from "../assignment/event.ts";
import { attemptsExhausted, type Failure, failureFor } from "../assignment/failure.ts";
import { failureBeforeClaim } from "../assignment/failure-at-claim.ts";
import type { Retry } from "../assignment/failure-kind.ts";
import { failureKind } from "../assignment/failure-reasons.ts";
import type { AssignmentRecord, PhaseOf } from "../assignment/record.ts";
import { maxAttempts, type Times } from "../assignment/times.ts";
import { BackendError } from "../backends/backend.ts";
import type { Attempt } from "../identity/capability.ts";
import { describeError } from "../platform/errors.ts";

/** Of the delay before the next attempt. */
const mostDoublings = 5;

export type BackendFailure = {
  readonly failure: Failure;
  /** Whose trouble it is: one that is the assignment's own says that the backend works. */
  readonly fault: "assignment" | "backend";
  /** The backend will never make this executor; what that means for the job. */
  readonly refused?: Retry;
};

/** What a failed call to the backend says, by name. One without a name is the backend's own trouble. */
export function backendFailure(error: unknown): BackendFailure {
  const told = error instanceof BackendError ? error : undefined;
  const named = (reason: Failure["reason"]) => failureBeforeClaim(failureFor(reason, describeError(error)));
  if (told?.kind === "terminal") {
    const failure = named(told.reason ?? "config_error");
    // Without a name nobody knows whether another executor would be refused as well: the next attempt tells.
    const refused = told.reason === undefined ? "attempt" : failureKind(failure.reason).retry;
    return { failure, fault: "assignment", refused };
  }
  const failure = named(told?.reason ?? "backend_down");
  return { failure, fault: failure.reason === "backend_down" ? "backend" : "assignment" };
}

/**
 * What becomes of an assignment whose attempt will never claim: the next attempt, after a delay that grows, or the
 * end. `now` in milliseconds since the epoch.
 */
export function lossOf(
  { attempts }: Pick<AssignmentRecord, "attempts">,
  attempt: Attempt,
  failure: Failure,
  now: number,
  times: Pick<Times, "attemptDelayMs">,
  retry: Retry = failureKind(failure.reason).retry,
): AssignmentEvent {
  const lost = (burnt: boolean): AssignmentEvent => ({
    type: "attempt_lost",
    attempt,
    failure,
    burnt,
    retryAt: now + times.attemptDelayMs * 2 ** Math.min(mostDoublings, attempt.number - 1),
  });
  switch (retry) {
    case "permanent":
      return failed(failure);
    case "attempt":
      return attempts.burnt + 1 < maxAttempts ? lost(true) : failed(attemptsExhausted(failure));
    case "wait":
      return lost(false);
    default:
      return retry satisfies never;
  }
}

/** How long the next attempt has still to wait. A clock that was set back must not make it long. */
export function msToAttempt(
  { notBefore }: PhaseOf<"queued">,
  now: number,
  times: Pick<Times, "attemptDelayMs">,
): number {
  const left = notBefore - now;
  return left > times.attemptDelayMs * 2 ** mostDoublings ? 0 : Math.max(0, left);
}

/** Our verdict on a task that nobody has claimed. */
export function failed(failure: Failure): AssignmentEvent {
  return { type: "failed", failure, result: failureKind(failure.reason).result, unclaimed: true };
}
