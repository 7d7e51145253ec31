import type { AssignmentEvent } from "../assignment/event.ts";
import { executorName } from "../assignment/executor-metadata.ts";
import { describeFailure, type Failure } from "../assignment/failure.ts";
import { deadlineOf } from "../assignment/overdue.ts";
import { type AssignmentRecord, currentAttempt, sameAttempt } from "../assignment/record.ts";
import type { Times } from "../assignment/times.ts";
import type { Backend, Executor, ExecutorRequest } from "../backends/backend.ts";
import type { Clock } from "../platform/clock.ts";
import { withDeadline } from "../platform/signal.ts";
import { backendFailure, lossOf } from "./attempt-failure.ts";
import { type AttemptHistory, type Known, waitingFor } from "./attempt-history.ts";
import type { Circuit, Pass } from "./circuit.ts";
import { currentOf, type Listed, type Move, nextMove } from "./next-move.ts";
import { obeyGitea, type Said } from "./obey-gitea.ts";

/** The part of the live assignments that the worker changes; see lifecycle/assignments.ts. */
export type WorkerAssignments = {
  get(id: string): { readonly record: AssignmentRecord } | undefined;
  within<T>(id: string, work: () => Promise<T>): Promise<T>;
  apply(
    id: string,
    event: AssignmentEvent,
    signal: AbortSignal,
  ): Promise<{ readonly record: AssignmentRecord; readonly ignored?: string }>;
};

export type ExecutorEvent = "executor_found" | "executor_absent" | "executor_created" | "identity_bound";

export type EnsureExecutorOptions = {
  readonly backend: Backend;
  /** The backend's own limit for an executor. */
  readonly timeoutMs: number;
  readonly assignments: WorkerAssignments;
  readonly circuit: Circuit;
  readonly history: AttemptHistory;
  /** What Gitea says of the task right now; rejects if it does not answer. */
  readonly beat: (taskId: bigint, signal: AbortSignal) => Promise<Said>;
  /** Everything that the executor is told and labelled with for the record's current attempt. */
  readonly executorRequest: (record: AssignmentRecord) => Omit<ExecutorRequest, "deadlineAt">;
  /** Unpredictable, a new one for each attempt: 32 hexadecimal digits. */
  readonly newNonce: () => string;
  readonly event: (event: ExecutorEvent, record: AssignmentRecord, executor?: Executor) => void;
  /** Hears why a job waits, for its log; undefined when it waits for nothing any more. */
  readonly waits: (id: string, failure: Failure | undefined) => void;
  readonly report: (assignment: string, error: string) => void;
  readonly times: Times;
  readonly clock: Clock;
};

export type Ensured =
  | { readonly kind: "executor"; readonly executor: Executor }
  /** Nothing is to be started any more: it is claimed, or its end is decided. */
  | { readonly kind: "settled" }
  /** Not yet; to be looked at again after `ms`. */
  | { readonly kind: "wait"; readonly ms: number };

/** More looks in a row than a life has steps: something else moves it, and is left to. */
const maxRounds = 8;

const settled: Ensured = { kind: "settled" };

/**
 * Finds the executor of the current attempt, or creates it. One that died before the claim, does not claim in time,
 * or will never be made, is replaced by a new attempt's, or ends the job: next-move.ts and attempt-failure.ts decide.
 * A create that failed in passing is made again for the same attempt: by its name it cannot come twice, and an
 * outage of the backend fails no job. Right before a create Gitea is asked whether the task still runs.
 *
 * Only decisions and changes of the record run as the assignment's actor, and a create is begun in there, so that
 * none begins after an end was decided. Its answer, however late, keeps no claim and no cancel waiting: the signal
 * is aborted by these. Rejects with what failed; the delivery comes again.
 */
export function createEnsureExecutor(options: EnsureExecutorOptions) {
  const { backend, assignments, circuit, history, clock, event, times } = options;

  /** A create may fetch an image or boot a machine; its outcome is open afterwards, and the same name finds it. */
  const createMs = 4 * times.callMs;

  const list = async (signal: AbortSignal): Promise<Listed> => {
    try {
      return await withDeadline(clock, times.callMs, (deadline) => backend.list(deadline), signal);
    } catch (error) {
      if (!signal.aborted) circuit.failed(backendFailure(error).failure);
      throw error;
    }
  };

  const discard = async (names: readonly string[], signal: AbortSignal) => {
    for (const name of names)
      await withDeadline(clock, times.callMs, (deadline) => backend.delete(name, deadline), signal);
  };

  /** Applies what was decided on a record, unless that has moved on meanwhile. */
  const applyTo = (decidedOn: AssignmentRecord, change: AssignmentEvent, signal: AbortSignal) =>
    assignments.within(decidedOn.assignment.id, async () => {
      const { id } = decidedOn.assignment;
      if (!sameStage(assignments.get(id)?.record, decidedOn)) return;
      const { record, ignored } = await assignments.apply(id, change, signal);
      if (ignored === undefined) tell(record, change);
    });

  const tell = ({ assignment, attempts }: AssignmentRecord, change: AssignmentEvent) => {
    if (change.type !== "attempt_lost" && change.type !== "failed") return;
    const what = change.type === "failed" ? "never started" : `attempt ${attempts.begun} is lost`;
    options.report(assignment.id, `${what}: ${describeFailure(change.failure)}`);
  };

  /**
   * Resolves to the create's answer, not awaited within the actor; undefined if there is nothing to create any more.
   */
  const begin = async (
    decidedOn: AssignmentRecord,
    another: boolean,
    signal: AbortSignal,
  ): Promise<Creation | undefined> =>
    assignments.within(decidedOn.assignment.id, async () => {
      const { id } = decidedOn.assignment;
      let record = assignments.get(id)?.record;
      if (record === undefined || !sameStage(record, decidedOn)) return undefined;
      if (another) {
        const nonce = options.newNonce();
        const deadlineAt = deadlineOf(record, options.timeoutMs, clock.now(), times);
        ({ record } = await assignments.apply(id, { type: "attempt_begun", nonce, deadlineAt }, signal));
      }
      // One that was begun by a write whose answer got lost is not tried yet: it is ours as well.
      if (record.phase.name !== "starting") return undefined;
      signal.throwIfAborted();
      const { deadlineAt } = record.phase;
      const request = { ...options.executorRequest(record), deadlineAt };
      const answer = withDeadline(clock, createMs, (deadline) => backend.create(request, deadline), signal);
      // Whoever awaits it hears of a failure.
      answer.catch(() => undefined);
      return { record, name: executorName(record.assignment, record.phase.attempt), answer };
    });

  const finish = async ({ record, name, answer }: Creation, pass: Pass, signal: AbortSignal) => {
    const { id } = record.assignment;
    try {
      const executor = await answer;
      pass.succeeded();
      history.saw(id, name, executor);
      options.waits(id, waitingFor(executor.state));
      event("executor_created", record, executor);
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
      options.waits(id, failure);
      const attempt = currentAttempt(record);
      if (refused !== undefined && attempt !== undefined)
        await applyTo(record, lossOf(record, attempt, failure, clock.now(), times, refused), signal);
      throw error;
    }
  };

  /** Resolves to undefined when the world has moved on meanwhile: it is to be looked at again. */
  const start = async (
    record: AssignmentRecord,
    another: boolean,
    signal: AbortSignal,
  ): Promise<Ensured | undefined> => {
    const { id, taskId } = record.assignment;
    const entered = circuit.enter();
    if ("retryMs" in entered) {
      options.waits(id, entered.failure);
      return { kind: "wait", ms: entered.retryMs };
    }
    using pass = entered;
    event("executor_absent", record);
    const said = await withDeadline(
      clock,
      times.callMs,
      (deadline) => options.beat(taskId, deadline),
      signal,
    );
    const word = obeyGitea(said);
    if (word !== undefined) {
      await applyTo(record, word, signal);
      return undefined;
    }
    const creation = await begin(record, another, signal);
    if (creation === undefined) return undefined;
    return { kind: "executor", executor: await finish(creation, pass, signal) };
  };

  const perform = async (
    record: AssignmentRecord,
    move: Move,
    signal: AbortSignal,
  ): Promise<Ensured | undefined> => {
    switch (move.do) {
      case "settle":
        return settled;
      case "apply":
        await applyTo(record, move.event, signal);
        // Its deletion is tried again as long as it is there, and the reconciler sees to it as well.
        if (move.event.type === "attempt_lost" && move.discard !== undefined)
          await discard([move.discard], signal);
        return undefined;
      case "discard":
        await discard(move.executors, signal);
        return { kind: "wait", ms: times.againMs };
      case "wait":
        return { kind: "wait", ms: move.ms };
      case "begin":
        await discard(move.lingering, signal).catch(() => undefined);
        return start(record, true, signal);
      case "create":
        return start(record, false, signal);
      case "use":
        options.waits(record.assignment.id, waitingFor(move.executor.state));
        event("executor_found", record, move.executor);
        return { kind: "executor", executor: move.executor };
      default:
        return move satisfies never;
    }
  };

  return async (id: string, signal: AbortSignal): Promise<Ensured> => {
    history.keep((known) => assignments.get(known) !== undefined);
    for (let rounds = 0; rounds < maxRounds; rounds++) {
      signal.throwIfAborted();
      const listed = await list(signal);
      // Read after the list: what has happened meanwhile is not to be decided from an older record.
      const record = assignments.get(id)?.record;
      if (record === undefined) return settled;
      const move = nextMove(record, listed, look(record, listed), clock.now(), times);
      const ensured = await perform(record, move, signal);
      if (ensured !== undefined) return ensured;
    }
    return { kind: "wait", ms: times.againMs };
  };

  function look(record: AssignmentRecord, { executors, invalid }: Listed): Known {
    const { assignment, phase } = record;
    if (phase.name !== "starting") return { seen: false };
    const name = executorName(assignment, phase.attempt);
    if (invalid.some((one) => one.name === name)) return { seen: true };
    return history.saw(assignment.id, name, currentOf(record, executors));
  }
}

type Creation = {
  readonly record: AssignmentRecord;
  readonly name: string;
  readonly answer: Promise<Executor>;
};

/** Whether what was decided on the one record holds for the other: nobody has claimed, ended or begun anything since. */
function sameStage(now: AssignmentRecord | undefined, then: AssignmentRecord): boolean {
  return (
    now !== undefined &&
    now.phase.name === then.phase.name &&
    now.attempts.begun === then.attempts.begun &&
    sameAttempt(currentAttempt(now), currentAttempt(then))
  );
}
