import { eventTypes } from "../assignment/event.ts";

/**
 * What may happen to an assignment or a backend, as it is called in events. A new one is added here before it is
 * published; readers take names that they do not know as they are.
 */
export const eventNames = [
  // Changes of its record.
  "offered",
  "orphan_found",
  ...eventTypes,
  "forgotten",
  // A delivery, in the order in which it is processed.
  "received",
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
  "runner_claimed",
  "acked",
  // What was done to its executors.
  "executor_killed",
  "executor_deleted",
  "executor_lingers",
  // A backend is left alone because it fails, and asked for executors again.
  "circuit_opened",
  "circuit_closed",
] as const;

export type EventName = (typeof eventNames)[number];
