import { executorName } from "../assignment/executor-metadata.ts";
import type { Failure } from "../assignment/failure.ts";
import { deadlineOf } from "../assignment/overdue.ts";
import { type AssignmentRecord, currentAttempt } from "../assignment/record.ts";
import type { Times } from "../assignment/times.ts";
import type { Backend, Executor, ExecutorRequest } from "../backends/backend.ts";
import type { Clock } from "../platform/clock.ts";
import { withDeadline } from "../platform/signal.ts";
import { type ApplyDecision, sameStage, type WorkerAssignments } from "./apply-decision.ts";
import { backendFailure, lossOf } from "./attempt-failure.ts";
import { type AttemptHistory, waitingFor } from "./attempt-history.ts";
import type { Pass } from "./circuit.ts";

export type CreateExecutorOptions = {
  readonly backend: Pick<Backend, "create">;
  /** The backend's own limit for an executor. */
  readonly timeoutMs: number;
  readonly assignments: WorkerAssignments;
  readonly history: AttemptHistory;
  /** Everything that the executor is told and labelled with for the record's current attempt. */
  readonly executorRequest: (
    record: AssignmentRecord,
  ) => Omit<ExecutorRequest, "deadlineAt" | "mayBeUnderWay">;
  /** Unpredictable, a new one for each attempt: 32 hexadecimal digits. */
  readonly newNonce: () => string;
  /** Hears why a job waits, for its log; undefined when it waits for nothing any more. */
  readonly waits: (id: string, failure: Failure | undefined) => void;
  readonly times: Times;
  readonly clock: Clock;
};

/** A create under way. */
export type Creation = {
  /** As it was when the create began. */
  readonly record: AssignmentRecord;
  readonly name: string;
  readonly answer: Promise<Executor>;
};

/**
 * A create in two halves: it begins as the assignment's actor, so that none begins after an end was decided, and its
 * answer is awaited outside, where it keeps no claim and no cancel waiting.
 */
export function createCreateExecutor(options: CreateExecutorOptions, applyDecision: ApplyDecision) {
  const { backend, assignments, history, waits, clock, times } = options;

  /** A create may fetch an image or boot a machine; its outcome is open afterwards, and the same name finds it. */
  const createMs = 4 * times.callMs;

  /** Undefined if the record is not what it was any more. `another`: a new attempt begins with it. */
  const begin = async (
    decidedOn: AssignmentRecord,
    another: boolean,
    signal: AbortSignal,
  ): Promise<Creation | undefined> =>
    assignments.within(decidedOn.assignment.id, async () => {
      const { id } = decidedOn.assignment;
      let record = assignments.get(id)?.record;
      if (record === undefined || !sameStage(record, decidedOn)) return undefined;
      const nonce = another ? options.newNonce() : undefined;
      if (nonce !== undefined) {
        const deadlineAt = deadlineOf(record, options.timeoutMs, clock.now(), times);
        ({ record } = await assignments.apply(id, { type: "attempt_begun", nonce, deadlineAt }, signal));
      }
      // One that was begun by a write whose answer got lost is not tried yet: it is ours as well.
      if (record.phase.name !== "starting") return undefined;
      signal.throwIfAborted();
      const { attempt, deadlineAt } = record.phase;
      // Of an attempt that another process has begun meanwhile nobody knows here what was asked for.
      const isNew = attempt.nonce === nonce;
      const request: ExecutorRequest = {
        ...options.executorRequest(record),
        deadlineAt,
        ...(isNew ? {} : { mayBeUnderWay: true }),
      };
      const answer = withDeadline(clock, createMs, (deadline) => backend.create(request, deadline), signal);
      // Whoever awaits it hears of a failure.
      answer.catch(() => undefined);
      return { record, name: executorName(record.assignment, record.phase.attempt), answer };
    });

  /** Resolves to the executor; what a failure means for the attempt is applied before it rejects. */
  const finish = async (
    { record, name, answer }: Creation,
    pass: Pass,
    signal: AbortSignal,
  ): Promise<Executor> => {
    const { id } = record.assignment;
    try {
      const executor = await answer;
      pass.succeeded();
      history.saw(id, name, executor);
      waits(id, waitingFor(executor.state));
      return executor;
    } catch (error) {
      if (signal.aborted) {
        history.failed(id, name, backendFailure(error).failure, true);
        throw error;
      }
      const { failure, fault, refused } = backendFailure(error);
      if (fault === "backend") pass.failed(failure);
      else pass.succeeded();
      history.failed(id, name, failure, fault === "backend");
      waits(id, failure);
      const attempt = currentAttempt(record);
      if (refused !== undefined && attempt !== undefined)
        await applyDecision(record, lossOf(record, attempt, failure, clock.now(), times, refused), signal);
      throw error;
    }
  };

  return { begin, finish };
}
