import { executorName } from "./assignment/executor-metadata.ts";
import type { Failure } from "./assignment/failure.ts";
import { currentAttempt, type AssignmentRecord } from "./assignment/record.ts";
import type { AssignmentEvent } from "./events/event.ts";
import type { StoredChange } from "./lifecycle/assignments.ts";

/** A stored change of an assignment, as history tells it. */
export function eventOfChange({ event, before, after }: StoredChange): AssignmentEvent {
  const { assignment } = after;
  const attempt = currentAttempt(after) ?? (before === undefined ? undefined : currentAttempt(before));
  const failure = tellsWhy.has(event) ? failureOf(after) : undefined;
  return {
    assignment: assignment.id,
    backend: assignment.backend,
    event,
    ...(before === undefined ? {} : { from: before.phase.name }),
    to: after.phase.name,
    ...(attempt === undefined
      ? {}
      : { attempt: attempt.number, executor: executorName(assignment, attempt) }),
    ...(failure === undefined ? {} : { reason: failure.reason, evidence: failure.evidence }),
  };
}

/** Later changes repeat it in the record. */
const tellsWhy: ReadonlySet<StoredChange["event"]> = new Set(["attempt_lost", "failed", "report_lost"]);

/** Why the last attempt was lost, or the job failed, where the record says so. */
function failureOf({ phase, attempts }: AssignmentRecord): Failure | undefined {
  if (phase.name === "queued") return attempts.lost;
  return phase.name === "ending" && phase.end.by === "controller" ? phase.end.failure : undefined;
}
