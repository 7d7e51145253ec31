import { deaths, type DeathReason } from "./deaths.ts";
import type { FailureKind } from "./failure-kind.ts";
import { refusals, type RefusalReason } from "./refusals.ts";
import { startFailures, type StartFailureReason } from "./start-failures.ts";

/** The closed list of what can go wrong with a job without being its own doing. For people and for dashboards. */
export type FailureReason = StartFailureReason | DeathReason | RefusalReason;

const all = { ...startFailures, ...deaths, ...refusals };

/** Whether a text from outside (a record, an event, a backend) is a reason of the list. */
export function isFailureReason(text: string): text is FailureReason {
  return Object.hasOwn(all, text);
}

/** All reasons: of jobs that never started, of those that died, of those that were refused. */
export const failureReasons: readonly FailureReason[] = Object.keys(all).filter(isFailureReason);

export function isStartFailure(reason: FailureReason): reason is StartFailureReason {
  return Object.hasOwn(startFailures, reason);
}

export function isDeath(reason: FailureReason): reason is DeathReason {
  return Object.hasOwn(deaths, reason);
}

/** What the list says of a reason. */
export function failureKind(reason: FailureReason): FailureKind {
  if (isStartFailure(reason)) return { stage: "never started", result: "failure", ...startFailures[reason] };
  if (!isDeath(reason))
    return { stage: "refused", retry: "permanent", result: "failure", ...refusals[reason] };
  const result = reason === "cancel_ignored" ? "cancelled" : "failure";
  return { stage: "died", retry: "permanent", result, ...deaths[reason] };
}
