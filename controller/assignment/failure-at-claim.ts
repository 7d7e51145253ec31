import type { DeathReason } from "./deaths.ts";
import { describeFailure, type Failure, failureFor } from "./failure.ts";
import { isDeath, isStartFailure } from "./failure-reasons.ts";
import type { StartFailureReason } from "./start-failures.ts";

/**
 * A backend sees how an executor ended, but not whether the job had been taken by then: only the record knows.
 * These two put what the backend says into the words that hold before and after the claim.
 */

/** What an executor's end means for a job that was not claimed: a start failure, whatever the backend called it. */
export function failureBeforeClaim(failure: Failure): Failure {
  const { reason } = failure;
  return isDeath(reason) && reason !== "unregistered"
    ? inItsWords(failureFor(beforeClaim[reason], describeFailure(failure)))
    : inItsWords(failure);
}

/** The bootstrap's last words tell more than that it ended. Nothing of the job has run by then that could say them. */
const lastWords: readonly (readonly [RegExp, StartFailureReason])[] = [
  [/no X\.509-SVID for /, "identity"],
  [/gitea-job-started (ended|did not)/, "docker"],
];

function inItsWords(failure: Failure): Failure {
  if (failure.reason !== "start_failed") return failure;
  const [, reason] = lastWords.find(([words]) => words.test(failure.evidence)) ?? [];
  return reason === undefined ? failure : failureFor(reason, failure.evidence);
}

/** What an executor's end means for a job that was claimed: a death, whatever the backend called it. */
export function failureAfterClaim(failure: Failure): Failure {
  const { reason } = failure;
  return isStartFailure(reason) ? failureFor(afterClaim[reason], describeFailure(failure)) : failure;
}

/** A runner that Gitea does not know starts no job and ends those that run: that reason is the same for both. */
const beforeClaim: Readonly<Record<Exclude<DeathReason, "unregistered">, StartFailureReason>> = {
  oom: "start_oom",
  evicted: "deleted_before_claim",
  node_lost: "deleted_before_claim",
  deadline: "too_slow",
  killed: "deleted_before_claim",
  vanished: "deleted_before_claim",
  silent: "too_slow",
  no_result: "start_failed",
  result_too_large: "start_failed",
  cancel_ignored: "deleted_before_claim",
  record_lost: "queue_lost",
};

const afterClaim: Readonly<Record<StartFailureReason, DeathReason>> = {
  image_missing: "no_result",
  image_invalid: "no_result",
  image_pull_refused: "no_result",
  registry_down: "no_result",
  image_pull_slow: "no_result",
  config_error: "no_result",
  quota: "vanished",
  unschedulable: "vanished",
  no_vm: "vanished",
  node_rejected: "vanished",
  identity: "no_result",
  docker: "no_result",
  backend_down: "vanished",
  start_failed: "no_result",
  start_oom: "oom",
  too_slow: "silent",
  deleted_before_claim: "vanished",
  attempts_exhausted: "no_result",
  no_time_left: "deadline",
  queue_lost: "record_lost",
  not_stored: "record_lost",
};
