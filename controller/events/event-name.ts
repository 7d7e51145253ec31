import { eventTypes } from "../assignment/event.ts";

/**
 * What may happen to an assignment, as it is called in events. A new one is added here before it is published;
 * readers take names that they do not know as they are.
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
] as const;

export type EventName = (typeof eventNames)[number];
