import type { AssignmentEvent } from "../assignment/event.ts";
import { describeFailure } from "../assignment/failure.ts";
import { type AssignmentRecord, currentAttempt, sameAttempt } from "../assignment/record.ts";

/** The part of the live assignments that the worker changes; see lifecycle/assignments.ts. */
export type WorkerAssignments = {
  get(id: string): { readonly record: AssignmentRecord } | undefined;
  within<T>(id: string, work: () => Promise<T>): Promise<T>;
  apply(
    id: string,
    event: AssignmentEvent,
    signal: AbortSignal,
  ): Promise<{ readonly record: AssignmentRecord; readonly ignored?: string }>;
};

/** Applies, as its actor, what was decided on a record outside; not if that has moved on meanwhile. */
export type ApplyDecision = (
  decidedOn: AssignmentRecord,
  change: AssignmentEvent,
  signal: AbortSignal,
) => Promise<void>;

/** `report` hears of lost attempts and verdicts. */
export function createApplyDecision(
  assignments: WorkerAssignments,
  report: (assignment: string, error: string) => void,
): ApplyDecision {
  const tell = ({ assignment, attempts }: AssignmentRecord, change: AssignmentEvent) => {
    if (change.type !== "attempt_lost" && change.type !== "failed") return;
    const what = change.type === "failed" ? "never started" : `attempt ${attempts.begun} is lost`;
    report(assignment.id, `${what}: ${describeFailure(change.failure)}`);
  };
  return (decidedOn, change, signal) =>
    assignments.within(decidedOn.assignment.id, async () => {
      const { id } = decidedOn.assignment;
      if (!sameStage(assignments.get(id)?.record, decidedOn)) return;
      const { record, ignored } = await assignments.apply(id, change, signal);
      if (ignored === undefined) tell(record, change);
    });
}

/** Whether what was decided on the one record holds for the other: nobody has claimed, ended or begun anything since. */
export function sameStage(now: AssignmentRecord | undefined, then: AssignmentRecord): boolean {
  return (
    now !== undefined &&
    now.phase.name === then.phase.name &&
    now.attempts.begun === then.attempts.begun &&
    sameAttempt(currentAttempt(now), currentAttempt(then))
  );
}
