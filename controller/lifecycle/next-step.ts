import type { AssignmentEvent } from "../assignment/event.ts";
import { describeFailure, type Failure, failureFor } from "../assignment/failure.ts";
import { failureAfterClaim } from "../assignment/failure-at-claim.ts";
import { overdue } from "../assignment/overdue.ts";
import { type AssignmentRecord, isLater, isOpen, isUnclaimed, type PhaseOf } from "../assignment/record.ts";
import type { Times } from "../assignment/times.ts";
import type { Executor } from "../backends/backend.ts";
import { endingSteps, finishedSteps } from "./over-steps.ts";
import { apart, isHidden, orphanOf, type Seen } from "./seen.ts";
import { applies, deletes, type Step } from "./step.ts";

/**
 * What is to be done about an assignment; the world is looked at again afterwards. Level-triggered: it reads the
 * record and what there is, never what was done before. Before the claim the worker sees to the current attempt;
 * what is here is time, and executors of other attempts. A living executor of the current attempt is never touched
 * before the end is decided.
 */
export function nextSteps(seen: Seen, now: number, times: Times): readonly Step[] {
  const { record, there } = seen;
  if (record === undefined) return there === undefined ? [] : unknownSteps(there.executors);
  const { phase } = record;
  const late = unregistered(seen, record, now, times) ?? overdue(record, seen.heardAt, now, times);
  switch (phase.name) {
    case "queued":
      return queuedSteps(record, there?.executors ?? [], late);
    case "starting":
      return (
        adoption(record, there?.executors ?? []) ?? [
          ...applies(late),
          ...otherAttempts(record, there?.executors ?? []),
        ]
      );
    case "adopted":
    case "claimed":
      return [
        ...applies(deathOf(seen, record, phase, now, times) ?? late),
        ...otherAttempts(record, there?.executors ?? []),
      ];
    case "ending":
      return endingSteps(seen, { record, phase }, late, now, times);
    case "finished":
      return finishedSteps(seen, { record, phase }, now, times);
    default:
      return phase satisfies never;
  }
}

/** No record: it counts as claimed, unless its task is known to be over. */
function unknownSteps(executors: readonly Executor[]): readonly Step[] {
  const orphan = orphanOf(executors);
  return orphan === undefined ? deletes(executors) : [{ do: "adopt", executor: orphan }];
}

function queuedSteps(
  record: AssignmentRecord,
  executors: readonly Executor[],
  late: AssignmentEvent | undefined,
): readonly Step[] {
  return adoption(record, executors) ?? [...applies(late), ...deletes(executors)];
}

/** The record does not know of an attempt whose executor is there: it is an old one, and what it said then got lost. */
function adoption(record: AssignmentRecord, executors: readonly Executor[]): readonly Step[] | undefined {
  const orphan = orphanOf(executors.filter(({ metadata }) => isLater(record, metadata.attempt)));
  if (orphan === undefined) return undefined;
  return applies({ type: "executor_adopted", attempt: orphan.metadata.attempt });
}

/** Nobody can be told how it ends: it goes on for a while, in case that is put right. */
function unregistered(
  { unregisteredSince }: Seen,
  record: AssignmentRecord,
  now: number,
  times: Times,
): AssignmentEvent | undefined {
  if (unregisteredSince === undefined || !isOpen(record)) return undefined;
  const lostMs = now - unregisteredSince;
  if (lostMs < times.unregisteredMs) return undefined;
  const failure = failureFor("unregistered", `for ${Math.round(lostMs / 1000)} s`);
  const unclaimed = isUnclaimed(record) ? { unclaimed: true } : {};
  return { type: "failed", failure, result: "failure", ...unclaimed };
}

function otherAttempts(record: AssignmentRecord, executors: readonly Executor[]): readonly Step[] {
  return deletes(apart(record, executors).others);
}

/** The executor has ended, or is proven to be gone, and no result was stored. */
function deathOf(
  seen: Seen,
  record: AssignmentRecord,
  phase: PhaseOf<"adopted" | "claimed">,
  now: number,
  times: Times,
): AssignmentEvent | undefined {
  const failure = deathSeen(seen, record, phase, now, times);
  if (failure === undefined) return undefined;
  const cancelled = phase.name === "claimed" && phase.cancelledAt !== undefined;
  return { type: "failed", failure, result: cancelled ? "cancelled" : "failure" };
}

function deathSeen(
  { there, settled, heardAt, absentSince }: Seen,
  record: AssignmentRecord,
  phase: PhaseOf<"adopted" | "claimed">,
  now: number,
  times: Times,
): Failure | undefined {
  if (there === undefined || isHidden(record, there)) return undefined;
  const { mine } = apart(record, there.executors);
  if (mine !== undefined) {
    if (mine.state.phase !== "ended") return undefined;
    const { cause, reason } = mine.state;
    // Nobody has seen it end: as long as it speaks it has not.
    if (cause === "vanished" && now - heardAt < times.absentMs) return undefined;
    const failure = failureAfterClaim(failureFor(cause ?? "no_result", reason));
    // Whether it had a result to tell is not known: its record, where it would have been stored, is lost.
    return phase.name === "adopted" && cause === undefined ? lost(failure) : failure;
  }
  // One list that lacks it may be an old one.
  if (!settled || absentSince === undefined) return undefined;
  if (now - Math.max(absentSince, heardAt) < times.absentMs) return undefined;
  const failure = failureFor("vanished", "its backend does not list it any more");
  return phase.name === "adopted" ? lost(failure) : failure;
}

function lost(failure: Failure): Failure {
  return failureFor("record_lost", describeFailure(failure));
}
