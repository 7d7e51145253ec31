import type { Assignment } from "../assignment/assignment.ts";
import type { Times } from "../assignment/times.ts";
import type { Backend, Executor, InvalidExecutor } from "../backends/backend.ts";
import { describeError } from "../platform/errors.ts";
import { createLogLimit } from "../platform/log-limit.ts";
import { withDeadline } from "../platform/signal.ts";
import type { Assignments } from "./assignments.ts";
import { createExecutorMemory } from "./executor-memory.ts";
import { type HeldSlots, holdInvalid, holdSlots } from "./hold-slots.ts";
import { createLook, type Listed } from "./look.ts";
import { nextSteps } from "./next-step.ts";
import { runPasses } from "./pass-loop.ts";
import { createPerform, type PerformOptions } from "./perform.ts";
import type { Registration } from "./registration.ts";
import { isAlive } from "./seen.ts";

export type ReconcilerOptions = Omit<
  PerformOptions,
  "backend" | "slots" | "assignments" | "hearing" | "times"
> & {
  readonly backend: Backend;
  readonly slots: HeldSlots;
  readonly assignments: Pick<
    Assignments,
    "all" | "get" | "within" | "apply" | "adopt" | "remove" | "changed"
  >;
  readonly hearing: { heardAt(id: string): number; forget(id: string): void };
  readonly registration: Pick<Registration, "lostSince">;
  /** The longest life of an executor of this backend: what cannot be read is deleted when it is older. */
  readonly maxLifeMs: number;
  readonly times: Times;
};

export type Reconciler = {
  /**
   * Looks once at everything and does what is to be done; what takes longer than the time between two passes goes on
   * beside the next ones. Rejects if the executors cannot be listed, after what time alone decides is done.
   */
  pass(signal: AbortSignal): Promise<void>;
  /** A pass whenever something changed, and now and then; ends with the signal. */
  run(signal: AbortSignal): Promise<void>;
  /** When the last pass came to its end, whatever the backend said, in milliseconds since the epoch. */
  passedAt(): number | undefined;
  /** When the backend answered a list for the last time. */
  listedAt(): number | undefined;
  /** The names of executors that should be gone for long; they hold no slot. */
  lingering(): ReadonlySet<string>;
  /** How many executors there were in the last list whose metadata cannot be read. */
  invalid(): number;
};

/** The same trouble of the same assignment is told this often. */
const tellMs = 60_000;

/**
 * Compares one backend's executors with the records and closes the gap: ends what is over, deletes what has
 * ended, tells of what died or took too long, gives slots back. It never calls Gitea. Level-triggered: each pass
 * starts from what there is, and doing a step twice does no harm.
 */
export function createReconciler(options: ReconcilerOptions): Reconciler {
  const { backend, slots, assignments, times, clock, log } = options;
  const memory = createExecutorMemory(times, () => clock.now());
  const perform = createPerform(options, memory);
  const look = createLook({ ...options, memory });
  const told = createLogLimit({ everyMs: tellMs, maxKeys: 1_000 }, clock);
  /** Assignments whose steps are being taken. */
  const busy = new Map<string, Promise<void>>();
  const lingered = new Set<string>();
  let passedAt: number | undefined;
  let listedAt: number | undefined;
  let invalidListed = 0;

  const tell = (error: unknown, assignment?: string) => {
    const text = describeError(error);
    const due = told.due(`${assignment ?? ""} ${withoutNumbers(text)}`);
    if (due === undefined) return;
    log.error({ assignment, backend: backend.kind, error: text, ...leftOut(due) }, "backend lifecycle error");
  };

  const settle = async (assignment: Assignment, seenBy: Listed, signal: AbortSignal) => {
    const { id } = assignment;
    const decide = (deadline: AbortSignal) =>
      assignments.within(id, async () => {
        // Whoever had the actor may have had it for longer than anybody waits here.
        deadline.throwIfAborted();
        const steps = nextSteps(look.at(id, seenBy), clock.now(), times);
        return { steps, errors: await perform.decided(steps, assignment, deadline) };
      });
    const { steps, errors } = await withDeadline(clock, times.callMs, decide, signal);
    for (const error of [...errors, ...(await perform.onBackend(steps, assignment, signal))])
      if (!signal.aborted) tell(error, id);
  };

  /** One work at a time for each key, and the others are not to fail with it; the next pass tries it again. */
  const inBackground = (
    key: string,
    work: () => Promise<void>,
    signal: AbortSignal,
  ): Promise<void> | undefined => {
    if (busy.has(key)) return undefined;
    const running = work()
      .catch((error: unknown) => {
        if (!signal.aborted) tell(error, key);
      })
      .finally(() => busy.delete(key));
    busy.set(key, running);
    return running;
  };

  const deleteInvalid = async ({ name, reason }: InvalidExecutor, signal: AbortSignal) => {
    if (memory.deleteAsked(name))
      log.error(
        { executor: name, backend: backend.kind, reason },
        "executor with invalid metadata is too old",
      );
    await withDeadline(clock, times.callMs, (deadline) => backend.delete(name, deadline), signal);
  };

  const tellLingering = (executors: readonly Executor[]) => {
    const now = memory.lingering();
    for (const name of now) {
      if (lingered.has(name)) continue;
      log.error({ executor: name, backend: backend.kind }, "executor lingers: it should be gone for long");
      const assignment = executors.find((one) => one.name === name)?.metadata.assignment.id;
      if (assignment !== undefined)
        options.onExecutor?.({ event: "executor_lingers", assignment, executor: name });
    }
    lingered.clear();
    for (const name of now) lingered.add(name);
    return now;
  };

  const takeIn = (executors: readonly Executor[], listed: Listed) => {
    const invalid = listed.answer?.invalid ?? [];
    const there = [
      ...executors.map((executor) => ({ name: executor.name, alive: isAlive(executor) })),
      ...invalid.map(({ name }) => ({ name, alive: true })),
    ];
    memory.listed(there, look.lacking(listed), listed.askedAt);
    const lingering = tellLingering(executors);
    holdSlots(slots, executors, lingering, (id) => assignments.get(id) !== undefined);
    holdInvalid(slots, invalid, lingering, log);
  };

  const isTooOld = ({ createdAt }: InvalidExecutor) =>
    clock.now() - createdAt >= options.maxLifeMs + times.deadlineMarginMs;

  /** Without an answer there is still what time alone decides. */
  const list = async (signal: AbortSignal): Promise<{ readonly listed: Listed; readonly error?: Error }> => {
    const asked = { askedAt: clock.now(), phases: look.phases() };
    try {
      const call = (deadline: AbortSignal) => backend.list(deadline);
      const { executors, invalid } = await withDeadline(clock, times.callMs, call, signal);
      listedAt = clock.now();
      const grouped = Map.groupBy(executors, ({ metadata }) => metadata.assignment.id);
      const listed = { ...asked, answer: { executors: grouped, invalid } };
      invalidListed = invalid.length;
      takeIn(executors, listed);
      return { listed };
    } catch (error) {
      if (signal.aborted) throw error;
      return { listed: asked, error: asError(error) };
    }
  };

  const pass = async (signal: AbortSignal) => {
    const { listed, error } = await list(signal);
    const tooOld = (listed.answer?.invalid ?? []).filter(isTooOld);
    const begun = [
      ...tooOld.map((one) => inBackground(`invalid ${one.name}`, () => deleteInvalid(one, signal), signal)),
      ...concerned(listed)
        // Spares the actors of assignments that run as they should.
        .filter(({ id }) => nextSteps(look.at(id, listed), clock.now(), times).length > 0)
        .map((one) => inBackground(one.id, () => settle(one, listed, signal), signal)),
    ];
    await atMost(Promise.all(begun.filter((one) => one !== undefined)), times.reconcileMs, signal);
    passedAt = clock.now();
    if (error !== undefined) throw error;
  };

  /** All that have a record here, and all that have an executor there. */
  const concerned = ({ answer }: Listed): readonly Assignment[] => {
    const known = new Map<string, Assignment>();
    for (const { record } of assignments.all())
      if (record.assignment.backend === backend.kind) known.set(record.assignment.id, record.assignment);
    for (const [id, executors] of answer?.executors ?? [])
      for (const { metadata } of executors) if (!known.has(id)) known.set(id, metadata.assignment);
    return [...known.values()];
  };

  const atMost = async (work: Promise<unknown>, ms: number, signal: AbortSignal) => {
    const over = new AbortController();
    const either = AbortSignal.any([signal, over.signal]);
    try {
      await Promise.race([work, clock.sleep(ms, either)]);
    } finally {
      over.abort();
    }
  };

  const run = async (signal: AbortSignal) => {
    const loop = {
      pass,
      onError: (error: unknown) => tell(error),
      phases: () => look.phases(),
      changed: (abort: AbortSignal) => assignments.changed(abort),
      onMoved: (listener: () => void) => backend.onChange(listener),
      times,
      clock,
    };
    await runPasses(loop, signal);
    await Promise.all(busy.values());
  };

  return {
    pass,
    run,
    passedAt: () => passedAt,
    listedAt: () => listedAt,
    lingering: () => memory.lingering(),
    invalid: () => invalidListed,
  };
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(describeError(error));
}

function leftOut({ leftOut: count }: { readonly leftOut: number }): { readonly leftOut?: number } {
  return count === 0 ? {} : { leftOut: count };
}

/** The same trouble, which may have another request's number or time in its words each time. */
function withoutNumbers(text: string): string {
  return text.replaceAll(/[0-9a-f]{6,}|[0-9]+/g, "#");
}
