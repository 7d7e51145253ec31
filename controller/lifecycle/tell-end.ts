import type { Assignment } from "../assignment/assignment.ts";
import type { BackendKind } from "../assignment/backend-kind.ts";
import { executorName } from "../assignment/executor-metadata.ts";
import { type Failure, type FailureContext, failureFor, failureRows } from "../assignment/failure.ts";
import type { FailureReason } from "../assignment/failure-reasons.ts";
import type {
  AssignmentRecord,
  End,
  PhaseOf,
  StepRecord,
  StoredReport,
  TaskResult,
} from "../assignment/record.ts";
import type { KeyedQueue } from "../platform/keyed-queue.ts";
import type { Logger } from "../platform/logger.ts";
import type { Assignments } from "./assignments.ts";

export type TellEndOptions = {
  readonly assignments: Pick<Assignments, "apply">;
  readonly reports: {
    /** Undefined if it is lost for ever; rejects while it cannot be read. */
    get(id: string, report: StoredReport, signal: AbortSignal): Promise<Uint8Array | undefined>;
  };
  /** Tells Gitea an executor's stored report; resolves to what Gitea shows then. */
  readonly sendReport: (
    report: { readonly taskId: bigint; readonly bytes: Uint8Array; readonly storedAt: number },
    signal: AbortSignal,
  ) => Promise<TaskResult | "gone">;
  /** Tells Gitea our own decision, with rows for the person who pushed; resolves to what Gitea shows then. */
  readonly reportEnd: (
    end: {
      readonly taskId: bigint;
      readonly result: TaskResult;
      readonly reason: readonly string[];
      readonly steps: readonly StepRecord[];
    },
    signal: AbortSignal,
  ) => Promise<TaskResult | "gone">;
  /** Shows or reproduces why an executor failed; undefined where there is no such command. */
  readonly commandFor: (backend: BackendKind, executor: string, reason: FailureReason) => string | undefined;
  /** One lane for each assignment's calls to Gitea's UpdateLog. */
  readonly logLanes: Pick<KeyedQueue, "run">;
  readonly log: Logger;
};

/** Whether a decided end may be told: our own rows follow the executor's last one, so that one has to be gone. */
export function isReady({ phase }: AssignmentRecord): boolean {
  return phase.name === "ending" && (phase.end.by === "executor" || phase.end.executorGone);
}

/**
 * One try to tell Gitea an end that is ready. Resolves to what Gitea shows then, "gone" if it knows no such task of
 * ours; undefined if there is nothing to tell any more, because the stored report is lost.
 */
export function createTellEnd({
  assignments,
  reports,
  sendReport,
  reportEnd,
  commandFor,
  logLanes,
  log,
}: TellEndOptions) {
  const tellReport = async (
    { assignment: { id, taskId } }: AssignmentRecord,
    report: StoredReport,
    storedAt: number,
    signal: AbortSignal,
  ) => {
    const bytes = await reports.get(id, report, signal);
    signal.throwIfAborted();
    if (bytes !== undefined) return sendReport({ taskId, bytes, storedAt }, signal);
    log.error({ assignment: id, result: report.result }, "stored result is lost");
    const failure = failureFor("record_lost", "the stored result cannot be read");
    await assignments.apply(id, { type: "report_lost", failure }, signal);
    return undefined;
  };

  const tellVerdict = (
    { assignment, steps }: AssignmentRecord,
    { attempt }: PhaseOf<"ending">,
    { result, failure }: Extract<End, { readonly by: "controller" }>,
    signal: AbortSignal,
  ) => {
    const executor = attempt === undefined ? undefined : executorName(assignment, attempt);
    const reason =
      failure === undefined ? [] : failureRows(failure, contextOf(assignment, executor, failure));
    return logLanes.run(assignment.id, () => {
      // What waited in the lane for too long is not wanted any more.
      signal.throwIfAborted();
      return reportEnd({ taskId: assignment.taskId, result, reason, steps }, signal);
    });
  };

  const contextOf = (
    { backend }: Assignment,
    executor: string | undefined,
    { reason, last }: Failure,
  ): FailureContext => {
    if (executor === undefined) return {};
    const command = commandFor(backend, executor, last ?? reason);
    return { executor, ...(command === undefined ? {} : { command }) };
  };

  return async (
    record: AssignmentRecord,
    phase: PhaseOf<"ending">,
    signal: AbortSignal,
  ): Promise<TaskResult | "gone" | undefined> => {
    const { end, since } = phase;
    switch (end.by) {
      case "executor":
        return tellReport(record, end.report, since, signal);
      case "controller":
        return tellVerdict(record, phase, end, signal);
      default:
        return end satisfies never;
    }
  };
}
