import { clone } from "@bufbuild/protobuf";
import { type TaskState, TaskStateSchema } from "../../proto/gen/runner/v1/runner_pb.ts";

/**
 * Gitea's log of a task may begin with `logRows` rows of the controller's. gitea-runner counts its rows from
 * 0, Gitea counts all of them: what goes in is moved up, what comes back is moved down.
 */

/** A state whose steps point at rows of Gitea's numbering; unknown fields stay. */
export function shiftState(state: TaskState, logRows: bigint): TaskState {
  const shifted = clone(TaskStateSchema, state);
  for (const step of shifted.steps) step.logIndex += logRows;
  return shifted;
}

/**
 * How many rows gitea-runner is told to be stored. Never more than it has sent so far: older versions cut
 * their buffer by the difference and panic. Never less than none.
 */
export function acknowledged(ackIndex: bigint, logRows: bigint, sent: bigint): bigint {
  const own = ackIndex - logRows;
  if (own < 0n) return 0n;
  return own > sent ? sent : own;
}
