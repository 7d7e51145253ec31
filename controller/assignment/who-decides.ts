import type { EventType } from "./event.ts";

/**
 * Who may let it happen: a leader only, or also a process that leads no more and still serves executors. The latter
 * passes on what others say (the executor, Gitea), and decides nothing.
 */
const decidedBy: Readonly<Record<EventType, "leader" | "anyone">> = {
  attempt_begun: "leader",
  attempt_lost: "leader",
  executor_adopted: "leader",
  claimed: "anyone",
  steps_reported: "anyone",
  rows_begun: "leader",
  cancel_told: "anyone",
  result_reported: "anyone",
  report_lost: "leader",
  failed: "leader",
  executor_gone: "leader",
  accepted: "anyone",
  report_given_up: "leader",
  ended_by_gitea: "anyone",
  queued_again: "leader",
};

export function isForLeader(type: EventType): boolean {
  return decidedBy[type] === "leader";
}
