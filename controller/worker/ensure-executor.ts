import { sameAssignment, type Assignment } from "../assignment/assignment.ts";
import { beginAttempt, finish, type AssignmentRecord, type TaskResult } from "../assignment/record.ts";
import { executorName } from "../assignment/executor-metadata.ts";
import { maxAttempts, type Times } from "../assignment/times.ts";
import { BackendError, type Backend, type Executor, type ExecutorRequest } from "../backends/backend.ts";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import { withDeadline } from "../platform/signal.ts";

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
  readonly times: Pick<Times, "callMs">;
  readonly clock: Clock;
};

export type Ensured =
  | { readonly kind: "executor"; readonly executor: Executor }
  /** Nothing is to be started any more: it is claimed, or over. */
  | { readonly kind: "settled" };

/** A create may fetch an image or boot a machine; its outcome is open afterwards, and the same name finds it. */
const createMs = 120_000;

/** What became of an attempt's create, by the executor's name. */
type Tried = { readonly name: string; readonly refused?: string };

/**
 * Finds the executor of the current attempt, or creates it. One that died before the claim, or that the backend
 * will never make, is replaced by a new attempt's; after the last attempt the task fails with what was seen. A
 * create that failed in passing is made again for the same attempt: by its name it cannot come twice, and an
 * outage of the backend fails no job. Right before a create Gitea is asked whether the task still runs. Runs as
 * the assignment's actor. Rejects with what failed; the delivery comes again.
 */
export function createEnsureExecutor(options: EnsureExecutorOptions) {
  const { backend, assignments, clock, event, times } = options;
  const tried = new Map<string, Tried>();

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

  const create = async (record: AssignmentRecord, name: string, signal: AbortSignal): Promise<Ensured> => {
    const { id } = record.assignment;
    const request = options.executorRequest(record);
    try {
      const executor = await withDeadline((deadline) => backend.create(request, deadline), createMs, signal);
      tried.set(id, { name });
      event("executor_created", record, executor);
      return { kind: "executor", executor };
    } catch (error) {
      if (error instanceof BackendError && error.kind === "terminal")
        tried.set(id, { name, refused: describeError(error) });
      throw error;
    }
  };

  const start = async (record: AssignmentRecord, another: boolean, signal: AbortSignal): Promise<Ensured> => {
    const { assignment } = record;
    const said = await options.beat(assignment.taskId, signal);
    if (said !== "running") return obey(record, said, signal);
    const nonce = options.newNonce();
    const next = (now: AssignmentRecord) => (another ? (beginAttempt(now, nonce, clock.now()) ?? now) : now);
    const begun = await assignments.change(assignment.id, next, signal);
    if (begun.phase.name !== "starting") return { kind: "settled" };
    return create(begun, executorName(assignment, begun.phase.attempt), signal);
  };

  const found = (record: AssignmentRecord, executor: Executor): Ensured => {
    tried.set(record.assignment.id, { name: executor.name });
    event("executor_found", record, executor);
    return { kind: "executor", executor };
  };

  /** Its record was lost: the executor that is there goes on as the first attempt that we know of. */
  const adopt = async (record: AssignmentRecord, executor: Executor, signal: AbortSignal) => {
    const { attempt } = executor.metadata;
    const adopted = await assignments.change(
      record.assignment.id,
      (now) =>
        now.phase.name === "queued"
          ? { ...now, phase: { name: "starting", attempt, since: clock.now() } }
          : now,
      signal,
    );
    return found(adopted, executor);
  };

  const ensure = async (record: AssignmentRecord, signal: AbortSignal): Promise<Ensured> => {
    const { phase, assignment } = record;
    if (phase.name === "claimed" || phase.name === "finished") return { kind: "settled" };
    const { executors } = await withDeadline((deadline) => backend.list(deadline), times.callMs, signal);
    if (phase.name === "queued") {
      const orphan = newest(executors.filter((executor) => isOrphan(executor, assignment)));
      if (orphan !== undefined) return adopt(record, orphan, signal);
      event("executor_absent", record);
      return start(record, true, signal);
    }
    const name = executorName(assignment, phase.attempt);
    const executor = executors.find((one) => one.name === name);
    if (executor !== undefined && executor.state.phase !== "ended") return found(record, executor);
    const lost = whyLost(executor, tried.get(assignment.id), name);
    if (executor !== undefined)
      await withDeadline((deadline) => backend.delete(name, deadline), times.callMs, signal);
    if (lost !== undefined && phase.attempt.number >= maxAttempts) return giveUp(record, lost, signal);
    event("executor_absent", record);
    return start(record, lost !== undefined, signal);
  };

  return (id: string, signal: AbortSignal): Promise<Ensured> =>
    assignments.within(id, async () => {
      for (const known of tried.keys()) if (assignments.get(known) === undefined) tried.delete(known);
      const record = assignments.get(id)?.record;
      return record === undefined ? { kind: "settled" } : ensure(record, signal);
    });
}

/** Why an attempt needs another one after it; undefined if it may only be that its create failed. */
function whyLost(executor: Executor | undefined, tried: Tried | undefined, name: string): string | undefined {
  if (executor?.state.phase === "ended") return executor.state.reason;
  if (tried?.name !== name) return undefined;
  return tried.refused ?? "it is gone";
}

function isOrphan({ metadata, state }: Executor, assignment: Assignment): boolean {
  return state.phase !== "ended" && sameAssignment(metadata.assignment, assignment);
}

function newest(executors: readonly Executor[]): Executor | undefined {
  return executors.toSorted((a, b) => b.metadata.attempt.number - a.metadata.attempt.number)[0];
}
