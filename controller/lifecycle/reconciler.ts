import type { Assignment } from "../assignment/assignment.ts";
import { finish, type AssignmentRecord, type TaskResult } from "../assignment/record.ts";
import type { Times } from "../assignment/times.ts";
import type { Backend, Executor, InvalidExecutor } from "../backends/backend.ts";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import type { Logger } from "../platform/logger.ts";
import { withDeadline } from "../platform/signal.ts";
import { createWakeup, listenForAny } from "../platform/wakeup.ts";
import type { Assignments } from "./assignments.ts";
import { nextSteps, type Seen, type Step } from "./next-step.ts";

export type ReconcilerOptions = {
  readonly backend: Backend;
  readonly slots: {
    restore(id: string): void;
    release(id: string): void;
    held(): readonly string[];
  };
  readonly assignments: Pick<Assignments, "all" | "get" | "within" | "change" | "remove" | "changed">;
  /** Ends a task in Gitea; steps and record as far as they are known. Resolves to what Gitea shows then. */
  readonly reportEnd: (
    task: { readonly assignment: Assignment; readonly record?: AssignmentRecord },
    result: TaskResult,
    reason: readonly string[],
    signal: AbortSignal,
  ) => Promise<TaskResult | "gone">;
  /** Takes an assignment's message out of the queue, if it is still there. */
  readonly removeMessage: (sequence: number, id: string, signal: AbortSignal) => Promise<unknown>;
  readonly times: Times;
  readonly clock: Clock;
  readonly log: Logger;
};

export type Reconciler = {
  /** Looks once at everything and does what is to be done. Rejects if the executors cannot be listed. */
  pass(signal: AbortSignal): Promise<void>;
  /** A pass whenever something changed, and now and then; ends with the signal. */
  run(signal: AbortSignal): Promise<void>;
  /** When the last pass went through, in milliseconds since the epoch. */
  passedAt(): number | undefined;
};

/**
 * Compares one backend's executors with the records and closes the gap: ends what is over, deletes what has
 * ended, reports what died, gives slots back. Level-triggered: each pass starts from what there is, and doing a
 * step twice does no harm.
 */
export function createReconciler(options: ReconcilerOptions): Reconciler {
  const { backend, slots, assignments, times, clock, log } = options;
  let passedAt: number | undefined;

  const perform = async (step: Step, assignment: Assignment, signal: AbortSignal): Promise<void> => {
    const { id } = assignment;
    const record = assignments.get(id)?.record;
    switch (step.do) {
      case "kill":
        log.warn({ assignment: id, executor: step.executor, reason: step.reason }, "executor killed");
        return backend.kill(step.executor, step.reason, signal);
      case "delete":
        await backend.delete(step.executor, signal);
        log.info({ assignment: id, executor: step.executor }, "executor deleted");
        return;
      case "fail": {
        const task = { assignment, ...(record === undefined ? {} : { record }) };
        const shown = await options.reportEnd(task, step.result, [step.reason], signal);
        log.warn({ assignment: id, reason: step.reason, result: shown }, "task ended for its executor");
        if (record === undefined) return;
        const result = shown === "gone" ? step.result : shown;
        await assignments.change(id, (now) => finish(now, result, clock.now()), signal);
        return;
      }
      case "release":
        slots.release(id);
        return;
      case "forget":
        // Its message first: without a record it would be taken for a new assignment when it is delivered again.
        if (record !== undefined) await options.removeMessage(record.sequence, id, signal);
        return assignments.remove(id, signal);
      default:
        return step satisfies never;
    }
  };

  /** The executors of one assignment, read after its record, so that a claim that is just made is not missed. */
  const look = async (id: string, signal: AbortSignal) => {
    const record = assignments.get(id)?.record;
    return seen(id, record, await backend.list(signal));
  };

  const settle = (assignment: Assignment, signal: AbortSignal) =>
    assignments.within(assignment.id, async () => {
      const steps = nextSteps(await look(assignment.id, signal), clock.now(), times);
      for (const step of steps) await perform(step, assignment, signal);
    });

  const list = (signal: AbortSignal) =>
    withDeadline(clock, times.callMs, (deadline) => backend.list(deadline), signal);

  const settleSafely = async (assignment: Assignment, signal: AbortSignal) => {
    try {
      await withDeadline(clock, times.callMs, (deadline) => settle(assignment, deadline), signal);
    } catch (error) {
      if (signal.aborted) throw error;
      // The others are not to fail with this one; the next pass tries it again.
      log.error(
        { assignment: assignment.id, backend: backend.kind, error: describeError(error) },
        "backend lifecycle error",
      );
    }
  };

  const pass = async (signal: AbortSignal) => {
    const listed = await list(signal);
    const { executors, invalid } = listed;
    holdSlots(executors);
    holdInvalid(slots, invalid, log);
    const known = new Map<string, Assignment>();
    for (const { record } of assignments.all())
      if (record.assignment.backend === backend.kind) known.set(record.assignment.id, record.assignment);
    for (const { metadata } of executors) known.set(metadata.assignment.id, metadata.assignment);
    const unsettled = [...known.values()].filter(
      // Spares the actors of assignments that run as they should.
      ({ id }) => nextSteps(seen(id, assignments.get(id)?.record, listed), clock.now(), times).length > 0,
    );
    await Promise.all(unsettled.map((assignment) => settleSafely(assignment, signal)));
    passedAt = clock.now();
  };

  /** What lives has a slot, and what is known to nobody has none: memory is never trusted alone. */
  const holdSlots = (executors: readonly Executor[]) => {
    for (const { metadata, state } of executors)
      if (state.phase !== "ended") slots.restore(metadata.assignment.id);
    const there = new Set(executors.map(({ metadata }) => metadata.assignment.id));
    for (const id of slots.held())
      if (!id.startsWith(invalidPrefix) && !there.has(id) && assignments.get(id) === undefined)
        slots.release(id);
  };

  const run = async (signal: AbortSignal) => {
    const moved = createWakeup();
    const stop = backend.onChange(() => {
      moved.wake();
    });
    try {
      while (!signal.aborted) {
        using woken = listenForAny(
          [
            (either) => moved.next(either),
            (either) => assignments.changed(either),
            (either) => clock.sleep(times.reconcileMs, either),
          ],
          signal,
        );
        try {
          await pass(signal);
          await woken.first();
        } catch (error) {
          if (signal.aborted) return;
          log.error({ backend: backend.kind, error: describeError(error) }, "backend lifecycle error");
          await clock.sleep(times.againMs, signal).catch(() => undefined);
        }
      }
    } finally {
      stop();
    }
  };

  return { pass, run, passedAt: () => passedAt };
}

type Listed = Awaited<ReturnType<Backend["list"]>>;

/** Stands before the names of executors that belong to no assignment. */
const invalidPrefix = "invalid/";

function seen(id: string, record: AssignmentRecord | undefined, listed: Listed): Seen {
  const executors = listed.executors.filter(({ metadata }) => metadata.assignment.id === id);
  const there = { executors, unreadable: listed.invalid.map(({ name }) => name) };
  return record === undefined ? there : { record, ...there };
}

/** What does not validate is reported and takes a slot as long as it is there, and stops nothing. */
function holdInvalid(
  slots: ReconcilerOptions["slots"],
  invalid: readonly InvalidExecutor[],
  log: Logger,
): void {
  const there = new Set(invalid.map(({ name }) => invalidPrefix + name));
  const held = new Set(slots.held());
  for (const { name, reason } of invalid) {
    if (held.has(invalidPrefix + name)) continue;
    log.error({ executor: name, reason }, "executor with invalid metadata takes a slot");
    slots.restore(invalidPrefix + name);
  }
  for (const id of held) if (id.startsWith(invalidPrefix) && !there.has(id)) slots.release(id);
}
