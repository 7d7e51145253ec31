import {
  beginAttempt,
  currentAttempt,
  finish,
  type AssignmentRecord,
  type TaskResult,
} from "../assignment/record.ts";
import { executorName } from "../assignment/executor-metadata.ts";
import { maxAttempts } from "../assignment/times.ts";
import type { Backend, Executor, ExecutorRequest } from "../backends/backend.ts";
import type { Clock } from "../platform/clock.ts";

/** The part of the live assignments that the worker changes; see lifecycle/assignments.ts. */
export type WorkerAssignments = {
  get(id: string): { readonly record: AssignmentRecord } | undefined;
  within<T>(id: string, work: () => Promise<T>): Promise<T>;
  change(
    id: string,
    next: (record: AssignmentRecord) => AssignmentRecord,
    signal: AbortSignal,
  ): Promise<AssignmentRecord>;
};

export type ExecutorEvent = "executor_found" | "executor_absent" | "executor_created" | "identity_bound";

export type EnsureExecutorOptions = {
  readonly backend: Backend;
  readonly assignments: WorkerAssignments;
  /** What Gitea says of the task right now; rejects if it does not answer. */
  readonly beat: (taskId: bigint, signal: AbortSignal) => Promise<"running" | TaskResult | "gone">;
  /** Ends the task in Gitea; resolves to what Gitea shows then. */
  readonly reportEnd: (
    record: AssignmentRecord,
    result: TaskResult,
    reason: readonly string[],
    signal: AbortSignal,
  ) => Promise<TaskResult | "gone">;
  /** Everything that the executor is told and labelled with for the record's current attempt. */
  readonly executorRequest: (record: AssignmentRecord) => ExecutorRequest;
  readonly newNonce: () => string;
  readonly event: (event: ExecutorEvent, record: AssignmentRecord, executor?: Executor) => void;
  readonly clock: Clock;
};

export type Ensured =
  | { readonly kind: "executor"; readonly executor: Executor }
  /** Nothing is to be started any more: it is claimed, or over. */
  | { readonly kind: "settled" };

/**
 * Finds the executor of the current attempt, or creates one for a new attempt. An executor that died before the
 * claim is replaced; after the last attempt the task fails with what was seen. Right before a create Gitea is
 * asked whether the task still runs. Runs as the assignment's actor. Rejects with what failed; the delivery
 * comes again.
 */
export function createEnsureExecutor(options: EnsureExecutorOptions) {
  const { backend, assignments, clock, event } = options;

  const settle = async (record: AssignmentRecord, result: TaskResult, signal: AbortSignal) => {
    await assignments.change(record.assignment.id, (now) => finish(now, result, clock.now()), signal);
    return { kind: "settled" } as const;
  };

  const giveUp = async (record: AssignmentRecord, last: string, signal: AbortSignal) => {
    const reason = [`This job never started: ${maxAttempts} executors were tried. The last one: ${last}.`];
    const shown = await options.reportEnd(record, "failure", reason, signal);
    return settle(record, shown === "gone" ? "failure" : shown, signal);
  };

  /** Gitea's word on a task that does not run: a cancel still wants its report, an end is only noted. */
  const obey = async (record: AssignmentRecord, said: TaskResult | "gone", signal: AbortSignal) => {
    if (said !== "cancelled") return settle(record, said === "gone" ? "cancelled" : said, signal);
    const shown = await options.reportEnd(record, "cancelled", [], signal);
    return settle(record, shown === "gone" ? "cancelled" : shown, signal);
  };

  const start = async (record: AssignmentRecord, signal: AbortSignal): Promise<Ensured> => {
    const said = await options.beat(record.assignment.taskId, signal);
    if (said !== "running") return obey(record, said, signal);
    const nonce = options.newNonce();
    const begun = await assignments.change(
      record.assignment.id,
      (now) => beginAttempt(now, nonce, clock.now()) ?? now,
      signal,
    );
    if (begun.phase.name !== "starting") return { kind: "settled" };
    const executor = await backend.create(options.executorRequest(begun), signal);
    event("executor_created", begun, executor);
    return { kind: "executor", executor };
  };

  const ensure = async (record: AssignmentRecord, signal: AbortSignal): Promise<Ensured> => {
    const { phase, assignment } = record;
    if (phase.name === "claimed" || phase.name === "finished") return { kind: "settled" };
    const attempt = currentAttempt(record);
    if (attempt !== undefined) {
      const name = executorName(assignment, attempt);
      const { executors } = await backend.list(signal);
      const executor = executors.find((one) => one.name === name);
      if (executor !== undefined && executor.state.phase !== "ended") {
        event("executor_found", record, executor);
        return { kind: "executor", executor };
      }
      const seen = executor?.state.phase === "ended" ? executor.state.reason : "it is gone";
      if (executor !== undefined) await backend.delete(name, signal);
      if (attempt.number >= maxAttempts) return giveUp(record, seen, signal);
    }
    event("executor_absent", record);
    return start(record, signal);
  };

  return (id: string, signal: AbortSignal): Promise<Ensured> =>
    assignments.within(id, async () => {
      const record = assignments.get(id)?.record;
      return record === undefined ? { kind: "settled" } : ensure(record, signal);
    });
}
