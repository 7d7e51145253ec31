import type { AssignmentEvent } from "../assignment/event.ts";
import { describeFailure } from "../assignment/failure.ts";
import { type AssignmentRecord, claimOf, currentAttempt, type PhaseOf } from "../assignment/record.ts";
import type { Times } from "../assignment/times.ts";
import type { Executor } from "../backends/backend.ts";
import { apart, currentName, isAlive, isHidden, type Seen } from "./seen.ts";
import { applies, deletes, kills, type Step } from "./step.ts";

type At<Name extends "ending" | "finished"> = {
  readonly record: AssignmentRecord;
  readonly phase: PhaseOf<Name>;
};

/**
 * The end is decided and Gitea does not know it yet. The current attempt's executor is only deleted once it does:
 * as long as it is there nobody takes the task for one that never ran.
 */
export function endingSteps(
  seen: Seen,
  { record, phase }: At<"ending">,
  late: AssignmentEvent | undefined,
  now: number,
  times: Times,
): readonly Step[] {
  const { end, since } = phase;
  const { mine, others } = apart(record, seen.there?.executors ?? []);
  const alive = mine !== undefined && isAlive(mine) ? [mine] : [];
  const patience = end.by === "executor" ? times.resultGraceMs : 0;
  // A backend that does not answer must not keep people from learning why their job failed.
  const gone =
    end.by === "controller" &&
    !end.executorGone &&
    (nothingLives(seen, record) || now - since >= times.terminalGraceMs);
  return [
    ...applies(late ?? (gone ? { type: "executor_gone" } : undefined)),
    ...(now - since >= patience ? kills(alive, reasonOf(phase)) : []),
    ...deletes(others),
    ...releases(seen, record, since, now, times),
  ];
}

/** What is left: the executor ends by itself or is ended, its slot is free, it is deleted, and all is forgotten. */
export function finishedSteps(
  seen: Seen,
  { record, phase }: At<"finished">,
  now: number,
  times: Times,
): readonly Step[] {
  const { mine, others } = apart(record, seen.there?.executors ?? []);
  const alive = mine !== undefined && isAlive(mine);
  const quiet = seen.endsUnseen === true && now - Math.max(seen.heardAt, phase.at) >= times.quietMs;
  const isTime = quiet || now - phase.at >= graceOf(record, phase, times);
  const killed = alive && isTime;
  const nothingThere =
    nothingLives(seen, record) &&
    mine === undefined &&
    others.length === 0 &&
    hiddenSteps(seen, record).length === 0 &&
    seen.settled;
  return [
    ...releases(seen, record, phase.at, now, times),
    ...(mine === undefined
      ? []
      : currentSteps(mine, killed ? whyOver(phase) : undefined, seen.lingering.has(mine.name))),
    ...(isTime ? hiddenSteps(seen, record) : []),
    ...deletes(others),
    ...(nothingThere && !mayComeLate(record, phase.at, now, times) ? [{ do: "forget" } as const] : []),
  ];
}

function whyOver({ result }: PhaseOf<"finished">): string {
  return result === "cancelled" ? "its task was cancelled" : "its task is over";
}

/**
 * Whether it runs nobody can tell, and nobody wants to know any more: its own name is what it was made under, and its owner
 * is looked at once more before it goes.
 */
function hiddenSteps({ there }: Seen, record: AssignmentRecord): readonly Step[] {
  const name = currentName(record);
  const ours = there?.unreadable.filter((one) => one === name || isOfEarlierAttempt(one, record)) ?? [];
  return ours.map((one) => ({ do: "delete", executor: one, messageFirst: one === name }));
}

function isOfEarlierAttempt(name: string, record: AssignmentRecord): boolean {
  const { id } = record.assignment;
  const number = name.startsWith(`${id}-`)
    ? /^([1-9][0-9]*)-[0-9a-f]{8}$/.exec(name.slice(id.length + 1))
    : null;
  return Number(number?.[1] ?? Infinity) < (currentAttempt(record)?.number ?? 0);
}

/** It is marked, and has ended or does not end however often it is killed, before it is deleted. */
function currentSteps(executor: Executor, killedFor: string | undefined, lingers: boolean): readonly Step[] {
  const { name, metadata } = executor;
  return [
    ...(killedFor === undefined ? [] : kills([executor], killedFor)),
    ...(metadata.terminal ? [] : [{ do: "mark", executor: name } as const]),
    ...(isAlive(executor) && !(killedFor !== undefined && lingers)
      ? []
      : [{ do: "delete", executor: name, messageFirst: true } as const]),
  ];
}

/**
 * A task that ended before it was claimed has nothing to wind up. After one that Gitea ended, a cancelled one
 * mostly, the job's last steps may still run.
 */
function graceOf(record: AssignmentRecord, { by }: PhaseOf<"finished">, times: Times): number {
  if (claimOf(record) === undefined) return 0;
  return by === "gitea" ? times.cancelGraceMs : times.terminalGraceMs;
}

function reasonOf({ end }: PhaseOf<"ending">): string {
  if (end.by === "executor") return "its result is stored";
  return end.failure === undefined ? "its task was cancelled" : describeFailure(end.failure);
}

function nothingLives({ there, settled }: Seen, record: AssignmentRecord): boolean {
  return there !== undefined && settled && !isHidden(record, there) && !there.executors.some(isAlive);
}

function releases(
  seen: Seen,
  record: AssignmentRecord,
  since: number,
  now: number,
  times: Times,
): readonly Step[] {
  const { there, hasSlot, lingering } = seen;
  if (!hasSlot || there === undefined || !seen.settled || isHidden(record, there)) return [];
  if (there.executors.some((executor) => isAlive(executor) && !lingering.has(executor.name))) return [];
  return there.executors.length === 0 && mayComeLate(record, since, now, times) ? [] : [{ do: "release" }];
}

/** A create whose outcome was open when the task ended may still bring an executor. */
function mayComeLate(record: AssignmentRecord, since: number, now: number, times: Times): boolean {
  return record.attempts.begun > 0 && claimOf(record) === undefined && now - since < times.terminalGraceMs;
}
