import { executorName } from "../assignment/executor-metadata.ts";
import type { AssignmentRecord } from "../assignment/record.ts";
import type { Backend, Executor } from "../backends/backend.ts";
import { withDeadline } from "../platform/signal.ts";
import { createApplyDecision } from "./apply-decision.ts";
import { backendFailure } from "./attempt-failure.ts";
import { type Known, waitingFor } from "./attempt-history.ts";
import type { Circuit } from "./circuit.ts";
import { createCreateExecutor, type CreateExecutorOptions } from "./create-executor.ts";
import { currentOf, type Listed, type Move, nextMove } from "./next-move.ts";
import { obeyGitea, type Said } from "./obey-gitea.ts";

export type ExecutorEvent = "executor_found" | "executor_absent" | "executor_created" | "identity_bound";

export type EnsureExecutorOptions = CreateExecutorOptions & {
  readonly backend: Backend;
  readonly circuit: Circuit;
  readonly slots: { isOverfull(): boolean };
  /** What Gitea says of the task right now; rejects if it does not answer. */
  readonly beat: (taskId: bigint, signal: AbortSignal) => Promise<Said>;
  readonly event: (event: ExecutorEvent, record: AssignmentRecord, executor?: Executor) => void;
  readonly report: (assignment: string, error: string) => void;
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
  const { backend, assignments, circuit, slots, history, clock, event, times } = options;

  const applyDecision = createApplyDecision(assignments, options.report);
  const create = createCreateExecutor(options, applyDecision);

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

  /** Resolves to undefined when the world has moved on meanwhile: it is to be looked at again. */
  const start = async (
    record: AssignmentRecord,
    another: boolean,
    signal: AbortSignal,
  ): Promise<Ensured | undefined> => {
    const { id, taskId } = record.assignment;
    // A start restores the slots of all records that have an attempt, those of which no executor came as well.
    if (slots.isOverfull()) return { kind: "wait", ms: times.againMs };
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
      await applyDecision(record, word, signal);
      return undefined;
    }
    const creation = await create.begin(record, another, signal);
    if (creation === undefined) return undefined;
    const executor = await create.finish(creation, pass, signal);
    event("executor_created", creation.record, executor);
    return { kind: "executor", executor };
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
        await applyDecision(record, move.event, signal);
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
