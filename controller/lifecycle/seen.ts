import { executorName } from "../assignment/executor-metadata.ts";
import { type AssignmentRecord, currentAttempt, sameAttempt } from "../assignment/record.ts";
import type { Executor } from "../backends/backend.ts";

/** What a backend's list says about one assignment. */
export type There = {
  readonly executors: readonly Executor[];
  /** The names of executors that are there, but whose metadata does not hold: whose they are is not known. */
  readonly unreadable: readonly string[];
};

/** What is known of one assignment: its record, if there is one, and its executors. */
export type Seen = {
  readonly record?: AssignmentRecord;
  /** Absent while the backend does not answer. */
  readonly there?: There;
  /**
   * The record was in this phase already when the list was asked for. If it was not, an executor that is missing
   * there proves nothing: it may be younger than the list.
   */
  readonly settled: boolean;
  /** When the facade last heard of its executor. */
  readonly heardAt: number;
  /** An executor that has ended may look as if it ran on. */
  readonly endsUnseen?: true;
  /** Since when Gitea has not known our registration, if it does not. */
  readonly unregisteredSince?: number;
  /** Since when every list has lacked the current attempt's executor. */
  readonly absentSince?: number;
  /** The names of executors that should be gone for long: they hold no slot. */
  readonly lingering: ReadonlySet<string>;
  readonly hasSlot: boolean;
};

export function isAlive({ state }: Executor): boolean {
  return state.phase !== "ended";
}

/** The name of the current attempt's executor, or of the last one before the end. */
export function currentName(record: AssignmentRecord): string | undefined {
  const attempt = currentAttempt(record);
  return attempt === undefined ? undefined : executorName(record.assignment, attempt);
}

/** The executor of the current attempt, and those of attempts that are lost. */
export function apart(
  record: AssignmentRecord,
  executors: readonly Executor[],
): { readonly mine: Executor | undefined; readonly others: readonly Executor[] } {
  const attempt = currentAttempt(record);
  const isMine = ({ metadata }: Executor) => attempt !== undefined && sameAttempt(metadata.attempt, attempt);
  return {
    mine: executors.find(isMine),
    others: executors.filter((executor) => !isMine(executor)),
  };
}

/** The current attempt's executor is there, but its metadata does not hold: whether it runs, nobody can tell. */
export function isHidden(record: AssignmentRecord, there: There): boolean {
  const name = currentName(record);
  return name !== undefined && there.unreadable.includes(name);
}

/** Of several executors whose record was lost, the one that may have claimed: the last that lives, or the last. */
export function orphanOf(executors: readonly Executor[]): Executor | undefined {
  return executors
    .filter(({ metadata }) => !metadata.terminal)
    .toSorted(
      (a, b) =>
        Number(isAlive(b)) - Number(isAlive(a)) || b.metadata.attempt.number - a.metadata.attempt.number,
    )[0];
}
