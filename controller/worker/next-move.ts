import { type Assignment, sameAssignment } from "../assignment/assignment.ts";
import type { AssignmentEvent } from "../assignment/event.ts";
import { executorName } from "../assignment/executor-metadata.ts";
import { type Failure, failureFor } from "../assignment/failure.ts";
import { failureBeforeClaim } from "../assignment/failure-at-claim.ts";
import { hasTimeLeft, overdue } from "../assignment/overdue.ts";
import { type AssignmentRecord, isLater, type PhaseOf, sameAttempt } from "../assignment/record.ts";
import type { Times } from "../assignment/times.ts";
import type { Executor, InvalidExecutor } from "../backends/backend.ts";
import type { Attempt } from "../identity/capability.ts";
import { failed, lossOf, msToAttempt } from "./attempt-failure.ts";
import { isPermanent, type Known, waitingFor, waitsForRoom } from "./attempt-history.ts";

/** What the worker does next for an assignment to get an executor. */
export type Move =
  /** It is claimed, or its end is decided: nothing is to be started any more. */
  | { readonly do: "settle" }
  /** Something has happened that the record does not say yet. `discard`: the executor that goes with it. */
  | { readonly do: "apply"; readonly event: AssignmentEvent; readonly discard?: string }
  /** An executor of a lost attempt lives: it is deleted, and has to end before the next one begins. */
  | { readonly do: "discard"; readonly executors: readonly string[] }
  | { readonly do: "wait"; readonly ms: number }
  /** A new attempt; what lingers of others is deleted once more. */
  | { readonly do: "begin"; readonly lingering: readonly string[] }
  /** The current attempt's executor was never seen: it is asked for under its name, under which none comes twice. */
  | { readonly do: "create" }
  /** It is there. */
  | { readonly do: "use"; readonly executor: Executor };

export type Listed = {
  readonly executors: readonly Executor[];
  readonly invalid: readonly Pick<InvalidExecutor, "name">[];
};

/** Decides from the record, from what the backend lists, and from what is remembered of the current attempt. */
export function nextMove(
  record: AssignmentRecord,
  listed: Listed,
  known: Known,
  now: number,
  times: Times,
): Move {
  const { phase } = record;
  const { executors } = listed;
  switch (phase.name) {
    case "queued":
      return fromQueued(record, phase, executors, now, times);
    case "starting":
      return fromStarting(record, phase, listed, known, now, times);
    case "adopted": {
      const executor = currentOf(record, executors);
      // Nothing is ever created for it; what its executor's end means the reconciler decides.
      return executor === undefined || executor.state.phase === "ended"
        ? { do: "wait", ms: times.retryMs }
        : { do: "use", executor };
    }
    case "claimed":
    case "ending":
    case "finished":
      return { do: "settle" };
    default:
      return phase satisfies never;
  }
}

/** The executor of the record's current attempt. One of its name that says to be another's is not. */
export function currentOf(
  { assignment, phase }: AssignmentRecord,
  executors: readonly Executor[],
): Executor | undefined {
  if (phase.name === "queued" || phase.attempt === undefined) return undefined;
  const { attempt } = phase;
  const name = executorName(assignment, attempt);
  return executors.find((one) => one.name === name && isFor(one, assignment, attempt));
}

/** What stands on an executor is what it is given an identity by, and somebody may have written it anew. */
function isFor({ metadata }: Executor, assignment: Assignment, attempt: Attempt): boolean {
  return sameAssignment(metadata.assignment, assignment) && sameAttempt(metadata.attempt, attempt);
}

function fromQueued(
  record: AssignmentRecord,
  phase: PhaseOf<"queued">,
  executors: readonly Executor[],
  now: number,
  times: Times,
): Move {
  const mine = ofAssignment(record, executors);
  const adopted = adoption(record, mine);
  if (adopted !== undefined) return adopted;
  const late = overdue(record, now, now, times);
  if (late !== undefined) return { do: "apply", event: late };
  const ms = msToAttempt(phase, now, times);
  if (ms > 0) return { do: "wait", ms };
  const living = mine.filter(isAlive).map(({ name }) => name);
  if (living.length > 0 && now - phase.notBefore < times.lingerMs)
    return { do: "discard", executors: living };
  return { do: "begin", lingering: living };
}

function fromStarting(
  record: AssignmentRecord,
  { attempt, since }: PhaseOf<"starting">,
  { executors, invalid }: Listed,
  known: Known,
  now: number,
  times: Times,
): Move {
  const adopted = adoption(record, ofAssignment(record, executors));
  if (adopted !== undefined) return adopted;
  const name = executorName(record.assignment, attempt);
  const executor = executors.find((one) => one.name === name);
  const lose = (failure: Failure): Move => ({
    do: "apply",
    event: lossOf(record, attempt, failure, now, times),
    discard: name,
  });
  if (executor === undefined) {
    // It is there, but whether it runs nobody can tell.
    if (invalid.some((one) => one.name === name))
      return now - since < times.startMs
        ? { do: "wait", ms: times.retryMs }
        : lose(failureFor("too_slow", "its metadata does not hold, and it has not asked for its job"));
    if (known.missingSince !== undefined)
      // A list may be older than the executor: one that lacks it proves little.
      return now - known.missingSince >= times.absentMs
        ? lose(failureFor("deleted_before_claim", "it is gone"))
        : { do: "wait", ms: times.againMs };
    if (now - since >= times.pendingMs)
      return {
        do: "apply",
        event: failed(known.failure ?? failureFor("backend_down", "it could not be asked")),
      };
    if (!hasTimeLeft(record, now, times))
      return { do: "apply", event: failed(failureFor("no_time_left", "no executor could be made")) };
    return { do: "create" };
  }
  if (!isFor(executor, record.assignment, attempt))
    return lose(failureFor("identity", "what stands on its executor is another job's"));
  if (executor.state.phase === "ended") {
    const { cause = "start_failed", reason } = executor.state;
    return lose(failureBeforeClaim(failureFor(cause, reason)));
  }
  const waiting = waitingFor(executor.state);
  if (waiting !== undefined && isPermanent(waiting)) return lose(waiting);
  if (waiting !== undefined && waitsForRoom(waiting))
    return now - executor.createdAt >= times.pendingMs
      ? { do: "apply", event: failed(waiting) }
      : { do: "use", executor };
  if (now - (known.countedFrom ?? now) < times.startMs) return { do: "use", executor };
  const own = [waiting, known.failure].find((one) => one !== undefined && !waitsForRoom(one));
  return lose(own ?? failureFor("too_slow", howSlow(executor, times.startMs)));
}

function ofAssignment({ assignment }: AssignmentRecord, executors: readonly Executor[]): readonly Executor[] {
  return executors.filter(({ metadata }) => sameAssignment(metadata.assignment, assignment));
}

/**
 * An executor of an attempt that the record does not know of: it may have claimed the task. Also one that has ended
 * may have done half of the job.
 */
function adoption(record: AssignmentRecord, mine: readonly Executor[]): Move | undefined {
  const [orphan] = mine
    .filter(({ metadata }) => !metadata.terminal && isLater(record, metadata.attempt))
    .toSorted(byLifeThenAge);
  if (orphan === undefined) return undefined;
  return { do: "apply", event: { type: "executor_adopted", attempt: orphan.metadata.attempt } };
}

function howSlow({ state }: Executor, ms: number): string {
  return `it ${state.phase === "running" ? "runs but has not asked for its job" : "does not run"} after ${Math.round(ms / 1000)} s`;
}

function isAlive({ state }: Executor): boolean {
  return state.phase !== "ended";
}

function byLifeThenAge(a: Executor, b: Executor): number {
  return Number(isAlive(b)) - Number(isAlive(a)) || b.metadata.attempt.number - a.metadata.attempt.number;
}
