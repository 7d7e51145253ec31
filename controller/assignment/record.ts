import type { Attempt } from "../identity/capability.ts";
import type { Assignment } from "./assignment.ts";

/** How a task ended, as Gitea says it. */
export type TaskResult = "success" | "failure" | "cancelled" | "skipped";

/** The bootstrap has the task in hand: from here on there is never a second executor. */
export type Claim = {
  /** Random, made by the bootstrap at its start. */
  readonly instance: string;
  /** Rows that Gitea's log had before the executor's first: its rows count from there. */
  readonly logRows: number;
  /** Milliseconds since the epoch. */
  readonly at: number;
};

export type Phase =
  | { readonly name: "queued" }
  | { readonly name: "starting"; readonly attempt: Attempt; readonly since: number }
  | { readonly name: "claimed"; readonly attempt: Attempt; readonly claim: Claim }
  | {
      readonly name: "finished";
      /** Absent when the task ended before an executor was tried. */
      readonly attempt?: Attempt;
      /** Kept for the executor that did not hear the answer and asks again. */
      readonly claim?: Claim;
      readonly result: TaskResult;
      readonly at: number;
    };

export const phaseNames: readonly Phase["name"][] = ["queued", "starting", "claimed", "finished"];

/** A step's state as last reported; times in RFC 3339, absent while unknown. */
export type StepRecord = {
  readonly id: number;
  readonly result?: TaskResult;
  readonly startedAt?: string;
  readonly stoppedAt?: string;
  readonly logIndex: number;
  readonly logLength: number;
};

/** The small, changing part of an assignment. Written before the effect that it stands for. */
export type AssignmentRecord = {
  readonly assignment: Assignment;
  /** When the task was fetched: Gitea's limits count from here. Milliseconds since the epoch. */
  readonly fetchedAt: number;
  /** Where its message is in the stream. */
  readonly sequence: number;
  /** The controller has begun to write rows into the task's log. */
  readonly rowsBegun: boolean;
  /** All steps, once the executor has reported any. */
  readonly steps: readonly StepRecord[];
  readonly phase: Phase;
};

export function queuedRecord(
  assignment: Assignment,
  at: { readonly fetchedAt: number; readonly sequence: number },
): AssignmentRecord {
  return { assignment, ...at, rowsBegun: false, steps: [], phase: { name: "queued" } };
}

/** The attempt that may run now, if any was begun. */
export function currentAttempt(record: AssignmentRecord): Attempt | undefined {
  return record.phase.name === "queued" ? undefined : record.phase.attempt;
}

/** Whether this attempt may run now. Asked again inside every change: another attempt may have begun since. */
export function isCurrentAttempt(record: AssignmentRecord, attempt: Attempt): boolean {
  const current = currentAttempt(record);
  return current?.number === attempt.number && current.nonce === attempt.nonce;
}

/**
 * Begins the first attempt, or the one after a lost one; undefined once there is a claim or an end. A nonce begins
 * one attempt only: a change that is tried again after it was stored finds that attempt.
 */
export function beginAttempt(
  record: AssignmentRecord,
  nonce: string,
  now: number,
): AssignmentRecord | undefined {
  const { phase } = record;
  if (phase.name === "claimed" || phase.name === "finished") return undefined;
  if (phase.name === "starting" && phase.attempt.nonce === nonce) return record;
  const number = phase.name === "starting" ? phase.attempt.number + 1 : 1;
  return { ...record, phase: { name: "starting", attempt: { number, nonce }, since: now } };
}

export type ClaimOutcome =
  | { readonly kind: "claimed"; readonly record: AssignmentRecord; readonly claim: Claim }
  /** The same bootstrap asked again, its first answer was lost: it gets the same one. */
  | { readonly kind: "repeated"; readonly claim: Claim }
  | { readonly kind: "refused"; readonly reason: string };

/** Enters a claim by the current attempt (isCurrentAttempt says so); the first instance wins for ever. */
export function enterClaim(record: AssignmentRecord, claim: Claim): ClaimOutcome {
  const { phase } = record;
  switch (phase.name) {
    case "queued":
      return { kind: "refused", reason: "no attempt has begun" };
    case "starting":
      return {
        kind: "claimed",
        claim,
        record: { ...record, phase: { name: "claimed", attempt: phase.attempt, claim } },
      };
    case "claimed":
      return phase.claim.instance === claim.instance
        ? { kind: "repeated", claim: phase.claim }
        : { kind: "refused", reason: "another instance has claimed the task" };
    case "finished":
      return { kind: "refused", reason: "the task is over" };
    default:
      return phase satisfies never;
  }
}

/** Gitea has accepted this result; a later one changes nothing. */
export function finish(record: AssignmentRecord, result: TaskResult, now: number): AssignmentRecord {
  if (record.phase.name === "finished") return record;
  const { phase } = record;
  const tried = phase.name === "queued" ? {} : { attempt: phase.attempt };
  const claimed = phase.name === "claimed" ? { claim: phase.claim } : {};
  return { ...record, phase: { name: "finished", ...tried, ...claimed, result, at: now } };
}

/** Whether the reported steps differ in more than the growth of their logs: that much is worth a write. */
export function stepsMoved(known: readonly StepRecord[], reported: readonly StepRecord[]): boolean {
  return (
    known.length !== reported.length ||
    reported.some((step, index) => {
      const before = known[index];
      return before === undefined || before.startedAt !== step.startedAt || before.result !== step.result;
    })
  );
}
