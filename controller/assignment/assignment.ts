import type { Trust } from "../identity/job-identity.ts";
import type { BackendKind } from "./backend-kind.ts";
import { InvalidAssignmentError } from "./errors.ts";

/** A task that Gitea handed to us, as far as it may be known anywhere: no payload, no secret, no token. */
export type Assignment = {
  readonly id: string;
  /** Gitea's `Task.id`: one attempt of one job, never used again. */
  readonly taskId: bigint;
  readonly backend: BackendKind;
  /** `owner/name`. */
  readonly repository: string;
  readonly jobKey: string;
  readonly spiffeId: string;
  readonly trust: Trust;
};

const idPrefix = "gitea-task-";

/** Task ids are positive int64 numbers in Gitea's protocol. */
const largestTaskId = 2n ** 63n - 1n;

/** `gitea-task-<task id>`. Throws InvalidAssignmentError for a number that Gitea never gives. */
export function assignmentId(taskId: bigint): string {
  if (taskId < 1n || taskId > largestTaskId)
    throw new InvalidAssignmentError(`task id ${taskId} is not between 1 and ${largestTaskId}`);
  return `${idPrefix}${taskId}`;
}

/** The task id in an assignment id, or undefined if the text is none. */
export function taskIdOf(id: string): bigint | undefined {
  const match = /^gitea-task-([1-9][0-9]{0,18})$/.exec(id);
  const taskId = BigInt(match?.[1] ?? 0);
  return taskId < 1n || taskId > largestTaskId ? undefined : taskId;
}

/** Whether two assignments say the same in every field. */
export function sameAssignment(a: Assignment, b: Assignment): boolean {
  return (
    a.id === b.id &&
    a.taskId === b.taskId &&
    a.backend === b.backend &&
    a.repository === b.repository &&
    a.jobKey === b.jobKey &&
    a.spiffeId === b.spiffeId &&
    a.trust === b.trust
  );
}
