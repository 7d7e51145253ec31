import { sameAssignment, type Assignment } from "../assignment/assignment.ts";
import {
  beginAttempt,
  currentAttempt,
  type AssignmentRecord,
  type TaskResult,
} from "../assignment/record.ts";
import { executorName } from "../assignment/executor-metadata.ts";
import { maxAttempts, type Times } from "../assignment/times.ts";
import { BackendError, type Backend, type Executor, type ExecutorRequest } from "../backends/backend.ts";
import type { Attempt } from "../identity/capability.ts";
import { describeError } from "../platform/errors.ts";
import { withDeadline } from "../platform/signal.ts";
import { createAttemptHistory } from "./attempt-history.ts";
import { createObeyGitea, type ObeyGiteaOptions } from "./obey-gitea.ts";

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

export type EnsureExecutorOptions = ObeyGiteaOptions & {
  readonly backend: Backend;
  readonly assignments: WorkerAssignments;
  /** What Gitea says of the task right now; rejects if it does not answer. */
  readonly beat: (taskId: bigint, signal: AbortSignal) => Promise<"running" | TaskResult | "gone">;
  /** Everything that the executor is told and labelled with for the record's current attempt. */
  readonly executorRequest: (record: AssignmentRecord) => ExecutorRequest;
  readonly newNonce: () => string;
  readonly event: (event: ExecutorEvent, record: AssignmentRecord, executor?: Executor) => void;
  readonly times: Pick<Times, "callMs" | "startMs" | "pendingMs">;
};

export type Ensured =
  | { readonly kind: "executor"; readonly executor: Executor }
  /** Nothing is to be started any more: it is claimed, or over. */
  | { readonly kind: "settled" };

const settled: Ensured = { kind: "settled" };

/** A create may fetch an image or boot a machine; its outcome is open afterwards, and the same name finds it. */
const createMs = 120_000;

/**
 * Finds the executor of the current attempt, or creates it. One that died before the claim, does not claim in
 * time, or will never be made by the backend, is replaced by a new attempt's; after the last attempt the task
 * fails with what was seen. A create that failed in passing is made again for the same attempt: by its name it
 * cannot come twice, and an outage of the backend fails no job. Right before a create Gitea is asked whether the
 * task still runs. Runs as the assignment's actor. Rejects with what failed; the delivery comes again.
 */
export function createEnsureExecutor(options: EnsureExecutorOptions) {
  const { backend, assignments, clock, event, times } = options;
  const history = createAttemptHistory(times, clock);
  const gitea = createObeyGitea(options);

  const giveUp = async (record: AssignmentRecord, last: string, signal: AbortSignal) => {
    const reason = [`This job never started: ${maxAttempts} executors were tried. The last one: ${last}.`];
    await gitea.end(record, "failure", reason, signal);
    return settled;
  };

  const create = async (record: AssignmentRecord, name: string, signal: AbortSignal): Promise<Ensured> => {
    const { id } = record.assignment;
    const request = options.executorRequest(record);
    try {
      const executor = await withDeadline(
        clock,
        createMs,
        (deadline) => backend.create(request, deadline),
        signal,
      );
      history.seen(id, executor);
      event("executor_created", record, executor);
      return { kind: "executor", executor };
    } catch (error) {
      if (error instanceof BackendError && error.kind === "terminal")
        history.refused(id, name, describeError(error));
      throw error;
    }
  };

  const start = async (record: AssignmentRecord, another: boolean, signal: AbortSignal): Promise<Ensured> => {
    const { assignment } = record;
    const before = currentAttempt(record);
    const said = await options.beat(assignment.taskId, signal);
    if (said !== "running") {
      await gitea.obey(record, said, signal);
      return settled;
    }
    const nonce = options.newNonce();
    // An attempt that is adopted after a conflict was begun by a write whose answer got lost: it is not tried yet.
    const next = (now: AssignmentRecord) =>
      another && sameAttempt(before, currentAttempt(now))
        ? (beginAttempt(now, nonce, clock.now()) ?? now)
        : now;
    const begun = await assignments.change(assignment.id, next, signal);
    if (begun.phase.name !== "starting") return settled;
    return create(begun, executorName(assignment, begun.phase.attempt), signal);
  };

  const found = (record: AssignmentRecord, executor: Executor): Ensured => {
    history.seen(record.assignment.id, executor);
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
    if (phase.name === "claimed" || phase.name === "finished") return settled;
    const { executors } = await withDeadline(
      clock,
      times.callMs,
      (deadline) => backend.list(deadline),
      signal,
    );
    if (phase.name === "queued") {
      const orphan = newest(executors.filter((executor) => isOrphan(executor, assignment)));
      if (orphan !== undefined) return adopt(record, orphan, signal);
      event("executor_absent", record);
      return start(record, true, signal);
    }
    const name = executorName(assignment, phase.attempt);
    const executor = executors.find((one) => one.name === name);
    const lost = history.lost(assignment.id, name, executor);
    if (executor !== undefined && lost === undefined) return found(record, executor);
    if (executor !== undefined)
      await withDeadline(clock, times.callMs, (deadline) => backend.delete(name, deadline), signal);
    if (lost !== undefined && phase.attempt.number >= maxAttempts) return giveUp(record, lost, signal);
    event("executor_absent", record);
    return start(record, lost !== undefined, signal);
  };

  return (id: string, signal: AbortSignal): Promise<Ensured> =>
    assignments.within(id, async () => {
      history.keep((known) => assignments.get(known) !== undefined);
      const record = assignments.get(id)?.record;
      return record === undefined ? settled : ensure(record, signal);
    });
}

function sameAttempt(a: Attempt | undefined, b: Attempt | undefined): boolean {
  return a?.number === b?.number && a?.nonce === b?.nonce;
}

function isOrphan({ metadata, state }: Executor, assignment: Assignment): boolean {
  return state.phase !== "ended" && sameAssignment(metadata.assignment, assignment);
}

function newest(executors: readonly Executor[]): Executor | undefined {
  return executors.toSorted((a, b) => b.metadata.attempt.number - a.metadata.attempt.number)[0];
}
