import { currentAttempt, type AssignmentRecord, type TaskResult } from "../assignment/record.ts";
import { executorName } from "../assignment/executor-metadata.ts";
import type { Times } from "../assignment/times.ts";
import type { Executor } from "../backends/backend.ts";

/** What is known of one assignment: its record, if there is one, and its executors. */
export type Seen = {
  readonly record?: AssignmentRecord;
  readonly executors: readonly Executor[];
  /** The names of executors that are there, but whose metadata does not hold: whose they are is not known. */
  readonly unreadable: readonly string[];
};

export type Step =
  /** Gitea has accepted the result long enough ago. */
  | { readonly do: "kill"; readonly executor: string; readonly reason: string }
  /** It has ended, or nobody needs it; it goes with all that it left. */
  | { readonly do: "delete"; readonly executor: string }
  /** The executor ended without a result: the controller reports one. */
  | { readonly do: "fail"; readonly result: TaskResult; readonly reason: string }
  /** Nothing runs any more for this assignment. */
  | { readonly do: "release" }
  /** Gitea has the result and the executor is gone: the record goes. */
  | { readonly do: "forget" };

/**
 * What is to be done about an assignment, in this order; the world is looked at again afterwards. An assignment
 * without a claim is the worker's, but for executors of other attempts than the current one; while none has begun,
 * an executor that lives is one whose record was lost, and the worker goes on with it. An executor without a record
 * counts as claimed. One that cannot be read counts as alive: what it is, and whether it runs, nobody can tell.
 */
export function nextSteps(
  { record, executors, unreadable }: Seen,
  now: number,
  times: Times,
): readonly Step[] {
  const phase = record?.phase;
  const hidden = unreadable.some((name) => name === currentName(record));
  switch (phase?.name) {
    case "queued":
      return deletes(executors.filter(({ state }) => state.phase === "ended"));
    case "starting":
      return others(record, executors);
    case "claimed":
      return [...others(record, executors), ...(hidden ? [] : claimedSteps(current(record, executors)))];
    case "finished": {
      const steps = finishedSteps(phase, executors, now - phase.at >= times.terminalGraceMs);
      return hidden ? steps.filter((step) => step.do !== "forget") : steps;
    }
    case undefined:
      return unknownSteps(executors, now, times);
    default:
      return phase satisfies never;
  }
}

/** Executors of attempts that are lost; the current one's name tells. */
function others(record: AssignmentRecord | undefined, executors: readonly Executor[]): readonly Step[] {
  const mine = current(record, executors);
  return deletes(executors.filter((executor) => executor !== mine));
}

function deletes(executors: readonly Executor[]): readonly Step[] {
  return executors.map(({ name }): Step => ({ do: "delete", executor: name }));
}

function current(record: AssignmentRecord | undefined, executors: readonly Executor[]): Executor | undefined {
  const name = currentName(record);
  return executors.find((executor) => executor.name === name);
}

function currentName(record: AssignmentRecord | undefined): string | undefined {
  const attempt = record === undefined ? undefined : currentAttempt(record);
  return record === undefined || attempt === undefined ? undefined : executorName(record.assignment, attempt);
}

function claimedSteps(executor: Executor | undefined): readonly Step[] {
  if (executor !== undefined && executor.state.phase !== "ended") return [];
  const why = executor?.state.phase === "ended" ? executor.state.reason : "it is gone";
  return [{ do: "fail", result: "failure", reason: `The executor ended before the job was over: ${why}.` }];
}

/**
 * A task that ended before it was claimed has nothing to wind up, so its executor is ended at once; its record
 * stays for a while, because a create whose outcome was open may still bring one.
 */
function finishedSteps(
  { attempt, claim }: Extract<AssignmentRecord["phase"], { name: "finished" }>,
  executors: readonly Executor[],
  graceOver: boolean,
): readonly Step[] {
  const steps = overSteps(executors, graceOver || claim === undefined);
  const mayComeLate = attempt !== undefined && claim === undefined && !graceOver;
  return executors.length > 0 || mayComeLate ? steps : [...steps, { do: "forget" }];
}

function overSteps(executors: readonly Executor[], graceOver: boolean): readonly Step[] {
  const alive = executors.filter(({ state }) => state.phase !== "ended");
  const gone = deletes(executors.filter(({ state }) => state.phase === "ended"));
  if (alive.length === 0) return [{ do: "release" }, ...gone];
  const kills = alive.map(({ name }): Step => ({ do: "kill", executor: name, reason: "its task is over" }));
  return graceOver ? [...kills, ...gone] : gone;
}

function unknownSteps(executors: readonly Executor[], now: number, times: Times): readonly Step[] {
  const open = executors.filter(({ metadata }) => !metadata.terminal);
  if (open.some(({ state }) => state.phase !== "ended")) return [];
  const reason = "The runner's record of this job was lost, and its executor has ended.";
  const fail: readonly Step[] = open.length > 0 ? [{ do: "fail", result: "failure", reason }] : [];
  const oldest = Math.min(...executors.map(({ createdAt }) => createdAt));
  return [...fail, ...overSteps(executors, now - oldest >= times.terminalGraceMs)];
}
