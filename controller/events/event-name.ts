/**
 * What may happen to an assignment, as it is called in events and in the log. A new one is added here before it is
 * published; readers take names that they do not know as they are.
 */
export const eventNames = [
  // From Gitea into the queue.
  "stored",
  "refused",
  // A delivery, in the order in which it is processed.
  "received",
  "runner_claimed",
  "capacity_wait",
  "capacity_acquired",
  "executor_found",
  "executor_absent",
  "executor_created",
  "identity_target_pending",
  "backend_pending",
  "identity_bound",
  "backend_ready",
  "backend_retry",
  "claim_timeout",
  "acked",
  // What goes wrong, and what becomes of it.
  "attempt_lost",
  "cancel_requested",
  "verdict",
  "record_restored",
  "message_restored",
  // The end.
  "result_stored",
  "terminal",
  "executor_killed",
  "executor_deleted",
  "executor_lingers",
  "forgotten",
] as const;

export type EventName = (typeof eventNames)[number];
