import { taskIdOf } from "../assignment/assignment.ts";
import type { BackendKind } from "../assignment/backend-kind.ts";
import { tidyEvidence } from "../assignment/evidence.ts";
import type { FailureReason } from "../assignment/failure-reasons.ts";
import type { Phase } from "../assignment/record.ts";
import type { EventName } from "./event-name.ts";

/**
 * Something that happened to an assignment. These fields are all that an event can hold: names of closed lists,
 * numbers, and two short texts. There is no place for a payload, a capability, a token or an identity.
 */
export type AssignmentEvent = {
  /** `gitea-task-<task id>`. */
  readonly assignment: string;
  readonly backend: BackendKind;
  readonly event: EventName;
  /** The phases before and after, where the event is a change of phase. */
  readonly from?: Phase["name"];
  readonly to?: Phase["name"];
  /** From 1. */
  readonly attempt?: number;
  /** The name of the executor. */
  readonly executor?: string;
  readonly reason?: FailureReason;
  /** What was seen, see assignment/evidence.ts. */
  readonly evidence?: string;
};

/** Something that happened to a backend, and to all that waits for it. */
export type BackendEvent = Pick<AssignmentEvent, "backend" | "event" | "reason" | "evidence">;

export type RunnerEvent = AssignmentEvent | BackendEvent;

/** Whose history an event belongs to: an assignment's id, or a backend's name. It ends the event's subject. */
export function aboutOf(happened: RunnerEvent): string {
  return "assignment" in happened ? happened.assignment : happened.backend;
}

/** Where and when an event was made. */
export type EventStamp = {
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** The controller's `HOSTNAME`. */
  readonly controller: string;
};

/** Raised when a field's meaning changes; a new field does not raise it. */
export const eventVersion = 1;

/**
 * An event as JSON, field by field, so that nothing comes along that merely hangs on the same object. Throws an
 * Error for an assignment id that is none: it would become part of a subject.
 */
export function encodeEvent(happened: RunnerEvent, { at, controller }: EventStamp): string {
  const { backend, event, reason, evidence } = happened;
  return JSON.stringify({
    v: eventVersion,
    at,
    ...("assignment" in happened ? ofAssignment(happened) : {}),
    backend,
    event,
    ...("assignment" in happened ? ofTransition(happened) : {}),
    reason,
    evidence: evidence === undefined ? undefined : tidyEvidence(evidence),
    controller,
  });
}

function ofAssignment({ assignment }: AssignmentEvent) {
  const taskId = taskIdOf(assignment);
  if (taskId === undefined) throw new Error("an event names no assignment");
  return { assignment, taskId: String(taskId) };
}

function ofTransition({ from, to, attempt, executor }: AssignmentEvent) {
  return { from, to, attempt, executor: executor === undefined ? undefined : tidyEvidence(executor) };
}
