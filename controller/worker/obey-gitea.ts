import { finish, type AssignmentRecord, type TaskResult } from "../assignment/record.ts";
import type { Clock } from "../platform/clock.ts";

export type ObeyGiteaOptions = {
  readonly assignments: {
    change(
      id: string,
      next: (record: AssignmentRecord) => AssignmentRecord,
      signal: AbortSignal,
    ): Promise<AssignmentRecord>;
  };
  /** Ends the task in Gitea; resolves to what Gitea shows then. */
  readonly reportEnd: (
    record: AssignmentRecord,
    result: TaskResult,
    reason: readonly string[],
    signal: AbortSignal,
  ) => Promise<TaskResult | "gone">;
  readonly clock: Clock;
};

/**
 * Ends an assignment that nobody has claimed. To be run as its actor; what was started for it the reconciler ends.
 * Rejects while Gitea or the record cannot be reached; the caller asks Gitea again then.
 */
export function createObeyGitea({ assignments, reportEnd, clock }: ObeyGiteaOptions) {
  const finished = async (record: AssignmentRecord, result: TaskResult, signal: AbortSignal) => {
    await assignments.change(record.assignment.id, (now) => finish(now, result, clock.now()), signal);
  };
  const end = async (
    record: AssignmentRecord,
    result: TaskResult,
    reason: readonly string[],
    signal: AbortSignal,
  ): Promise<void> => {
    const shown = await reportEnd(record, result, reason, signal);
    await finished(record, shown === "gone" ? result : shown, signal);
  };
  return {
    /** Reports this result, and records what Gitea made of it. */
    end,
    /** Gitea's word on a task that does not run: a cancel still wants its report, an end is only noted. */
    obey: (record: AssignmentRecord, said: TaskResult | "gone", signal: AbortSignal): Promise<void> =>
      said === "cancelled"
        ? end(record, "cancelled", [], signal)
        : finished(record, said === "gone" ? "cancelled" : said, signal),
  };
}
