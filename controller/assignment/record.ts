import type { Attempt } from "../identity/capability.ts";
import type { Assignment } from "./assignment.ts";
import type { Failure } from "./failure.ts";

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

/** Where the executor's last report is kept, encrypted, until Gitea has accepted it. */
export type StoredReport = {
  readonly result: TaskResult;
  /** Begins the names of its parts; another report of the same task has another one. */
  readonly key: string;
  readonly parts: number;
  readonly bytes: number;
};

/** What Gitea is to be told, decided once and for ever. */
export type End =
  | { readonly by: "executor"; readonly report: StoredReport }
  | {
      readonly by: "controller";
      /** A failure of ours to run the job is not a cancel, whatever ended the executor. */
      readonly result: "failure" | "cancelled";
      /** Absent when there is nothing to explain: somebody cancelled the job before it ran. */
      readonly failure?: Failure;
      /** No executor writes rows any more, so ours may follow; or there are none of ours. */
      readonly executorGone: boolean;
    };

export type Phase =
  /** No attempt runs. The next may begin at `notBefore`. */
  | { readonly name: "queued"; readonly notBefore: number }
  | {
      readonly name: "starting";
      readonly attempt: Attempt;
      readonly since: number;
      /** When its executor has to be over: Gitea ends what takes longer. */
      readonly deadlineAt: number;
    }
  /** An executor whose record was lost: it may have claimed the task, or may still do so. */
  | { readonly name: "adopted"; readonly attempt: Attempt; readonly since: number }
  | {
      readonly name: "claimed";
      readonly attempt: Attempt;
      readonly claim: Claim;
      /** Absent if the attempt's record was lost. */
      readonly deadlineAt?: number;
      /** Since when Gitea has wanted the task to end. */
      readonly cancelledAt?: number;
    }
  /** Decided, but Gitea has not accepted it yet. */
  | {
      readonly name: "ending";
      /** Absent when the task ended before an executor was tried. */
      readonly attempt?: Attempt;
      /** Kept for the executor that did not hear the answer and asks again. */
      readonly claim?: Claim;
      readonly end: End;
      readonly since: number;
    }
  /** Gitea shows this result, for ever. */
  | {
      readonly name: "finished";
      readonly attempt?: Attempt;
      readonly claim?: Claim;
      readonly result: TaskResult;
      /** Who decided it. An executor that did not is given time to wind up. */
      readonly by: "executor" | "controller" | "gitea";
      readonly at: number;
    };

export type PhaseName = Phase["name"];
export type PhaseOf<Name extends PhaseName> = Extract<Phase, { readonly name: Name }>;

export const phaseNames = [
  "queued",
  "starting",
  "adopted",
  "claimed",
  "ending",
  "finished",
] as const satisfies readonly PhaseName[];

/** A step's state as last reported; times in RFC 3339, absent while unknown. */
export type StepRecord = {
  readonly id: number;
  readonly result?: TaskResult;
  readonly startedAt?: string;
  readonly stoppedAt?: string;
  readonly logIndex: number;
  readonly logLength: number;
};

/** The attempts of an assignment, those that are lost included. */
export type Attempts = {
  /** The number of the last one; 0 before the first. */
  readonly begun: number;
  /** How many of the lost ones count against the limit. */
  readonly burnt: number;
  /** Why the last lost one is lost. */
  readonly lost?: Failure;
};

/** The small, changing part of an assignment. Written before the effect that it stands for. */
export type AssignmentRecord = {
  readonly assignment: Assignment;
  /** When the task was fetched: Gitea's limits count from here. Milliseconds since the epoch. */
  readonly fetchedAt: number;
  /**
   * Where its message is in the stream, 0 if it never had one that we know of. Used only after the message there
   * has been seen to name this assignment: the stream may have been lost and made anew.
   */
  readonly sequence: number;
  /** A controller has begun to write rows into the task's log, or may have: the record that would tell got lost. */
  readonly rowsBegun: boolean;
  readonly attempts: Attempts;
  /** All steps, once the executor has reported any. */
  readonly steps: readonly StepRecord[];
  readonly phase: Phase;
};

/** A record as it begins. `fetchedAt` in milliseconds since the epoch; `rowsBegun` as in the record, false unless given. */
export function queuedRecord(
  assignment: Assignment,
  known: { readonly fetchedAt: number; readonly sequence: number; readonly rowsBegun?: boolean },
): AssignmentRecord {
  return {
    assignment,
    rowsBegun: false,
    ...known,
    attempts: { begun: 0, burnt: 0 },
    steps: [],
    phase: { name: "queued", notBefore: 0 },
  };
}

/** Whether nobody has claimed the task and none is to: the controller speaks for it then, and holds it. */
export function isUnclaimed({ phase }: AssignmentRecord): boolean {
  return phase.name === "queued" || phase.name === "starting";
}

/** Whether the task may still get to run or runs: its executor, if any, is wanted. */
export function isOpen({ phase }: AssignmentRecord): boolean {
  return phase.name !== "ending" && phase.name !== "finished";
}

/** The claim, if there was one. */
export function claimOf({ phase }: AssignmentRecord): Claim | undefined {
  return "claim" in phase ? phase.claim : undefined;
}

/** The attempt that may run now, or that ran last before the end. */
export function currentAttempt({ phase }: AssignmentRecord): Attempt | undefined {
  return phase.name === "queued" ? undefined : phase.attempt;
}

/** Whether this attempt may run now. Asked again inside every change: another attempt may have begun since. */
export function isCurrentAttempt(record: AssignmentRecord, attempt: Attempt): boolean {
  return sameAttempt(currentAttempt(record), attempt);
}

/** Whether this attempt is a later one than any that the record knows of: the record is an old one then. */
export function isLater({ attempts }: Pick<AssignmentRecord, "attempts">, { number }: Attempt): boolean {
  return number > attempts.begun;
}

export function sameAttempt(a: Attempt | undefined, b: Attempt | undefined): boolean {
  return a?.number === b?.number && a?.nonce === b?.nonce;
}

/** What Gitea is told, or shows, once that is decided. */
export function resultOf({ phase }: AssignmentRecord): TaskResult | undefined {
  if (phase.name === "finished") return phase.result;
  if (phase.name !== "ending") return undefined;
  return phase.end.by === "executor" ? phase.end.report.result : phase.end.result;
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
