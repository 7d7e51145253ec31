import type { Assignment } from "../assignment/assignment.ts";
import type { AssignmentEvent } from "../assignment/event.ts";
import { describeFailure } from "../assignment/failure.ts";
import { resultOf } from "../assignment/record.ts";
import type { Times } from "../assignment/times.ts";
import type { Backend } from "../backends/backend.ts";
import type { Clock } from "../platform/clock.ts";
import type { Logger } from "../platform/logger.ts";
import { withDeadline } from "../platform/signal.ts";
import type { Applied, Assignments } from "./assignments.ts";
import type { ExecutorMemory } from "./executor-memory.ts";
import type { HeldSlots } from "./hold-slots.ts";
import { currentName } from "./seen.ts";
import type { Step } from "./step.ts";

/** Something that was done to an executor. */
export type ExecutorDeed = {
  readonly event: "executor_killed" | "executor_deleted" | "executor_lingers";
  readonly assignment: string;
  readonly executor: string;
  readonly why?: string;
};

export type PerformOptions = {
  readonly backend: Pick<Backend, "kind" | "kill" | "markTerminal" | "delete">;
  readonly slots: Pick<HeldSlots, "release">;
  readonly assignments: Pick<Assignments, "get" | "apply" | "adopt" | "remove">;
  readonly hearing: { forget(id: string): void };
  /** Takes an assignment's message out of the queue, if it is still there. */
  readonly removeMessage: (sequence: number, id: string, signal: AbortSignal) => Promise<unknown>;
  /** Removes what is stored of an assignment's reports. */
  readonly removeReports: (id: string, signal: AbortSignal) => Promise<unknown>;
  /** Hears of each deed once for an executor; must not throw. */
  readonly onExecutor?: (deed: ExecutorDeed) => void;
  readonly times: Pick<Times, "callMs">;
  readonly clock: Clock;
  readonly log: Logger;
};

/** Steps as effects, each tried once. */
export type Perform = {
  /** Those that change the assignment. To be run as its actor; each is tried, the errors are handed back. */
  decided(steps: readonly Step[], assignment: Assignment, signal: AbortSignal): Promise<readonly unknown[]>;
  /**
   * Those that reach the backend: what they end is not wanted any more, whatever else happens, so that they need no
   * actor and keep no caller waiting. Those of one executor go in order up to the first error, but for that of a kill:
   * what does not end is deleted after it.
   */
  onBackend(steps: readonly Step[], assignment: Assignment, signal: AbortSignal): Promise<readonly unknown[]>;
};

type BackendStep = Extract<Step, { readonly do: "kill" | "mark" | "delete" }>;

export function createPerform(options: PerformOptions, memory: ExecutorMemory): Perform {
  const { backend, slots, assignments, times, clock, log } = options;

  const decide = async (step: Step, { id }: Assignment, signal: AbortSignal): Promise<void> => {
    switch (step.do) {
      case "apply":
        tellDecision(step.event, await assignments.apply(id, step.event, signal));
        return;
      case "adopt": {
        const { executor } = step;
        await assignments.adopt({ ...executor.metadata, createdAt: executor.createdAt }, signal);
        log.warn({ assignment: id, executor: executor.name }, "executor without a record adopted");
        return;
      }
      case "release":
        slots.release(id);
        return;
      case "forget":
        return forget(id, signal);
      case "kill":
      case "mark":
      case "delete":
        return;
      default:
        return step satisfies never;
    }
  };

  /** History and the job's own log tell of a failure too, but who looks into our log finds it there. */
  const tellDecision = (event: AssignmentEvent, { record, ignored }: Applied) => {
    if (ignored !== undefined) return;
    const about = { assignment: record.assignment.id, backend: backend.kind };
    if (event.type === "failed") log.warn({ ...about, reason: describeFailure(event.failure) }, "job failed");
    if (event.type === "report_given_up")
      log.error(
        { ...about, result: resultOf(record) },
        "end of a task given up: Gitea could not be told in time",
      );
  };

  const forget = async (id: string, signal: AbortSignal) => {
    const record = assignments.get(id)?.record;
    if (record === undefined) return;
    // Its message first: without a record it would be taken for a new assignment when it is delivered again.
    await options.removeMessage(record.sequence, id, signal);
    await options.removeReports(id, signal);
    await assignments.remove(id, signal);
    const name = currentName(record);
    if (name !== undefined) memory.forgot(name);
    options.hearing.forget(id);
  };

  const reach = async (step: BackendStep, { id }: Assignment, signal: AbortSignal): Promise<void> => {
    const { executor } = step;
    const about = { assignment: id, backend: backend.kind, executor };
    switch (step.do) {
      case "kill": {
        const first = memory.killAsked(executor);
        await backend.kill(executor, step.reason, signal);
        if (!first) return;
        log.warn({ ...about, reason: step.reason }, "executor killed");
        options.onExecutor?.({ event: "executor_killed", assignment: id, executor, why: step.reason });
        return;
      }
      case "mark":
        return backend.markTerminal(executor, signal);
      case "delete": {
        const sequence = assignments.get(id)?.record.sequence;
        if (step.messageFirst && sequence !== undefined) await options.removeMessage(sequence, id, signal);
        const first = memory.deleteAsked(executor);
        await backend.delete(executor, signal);
        if (!first) return;
        log.info(about, "executor deleted");
        options.onExecutor?.({ event: "executor_deleted", assignment: id, executor });
        return;
      }
      default:
        return step satisfies never;
    }
  };

  const inOrder = async (
    lane: readonly BackendStep[],
    assignment: Assignment,
    signal: AbortSignal,
  ): Promise<readonly unknown[]> => {
    const errors: unknown[] = [];
    for (const step of lane)
      try {
        const work = (deadline: AbortSignal) => reach(step, assignment, deadline);
        await withDeadline(clock, times.callMs, work, signal);
      } catch (error) {
        errors.push(error);
        if (signal.aborted || step.do !== "kill") break;
      }
    return errors;
  };

  return {
    decided: async (steps, assignment, signal) => {
      const errors: unknown[] = [];
      for (const step of steps) await decide(step, assignment, signal).catch((error) => errors.push(error));
      return errors;
    },
    onBackend: async (steps, assignment, signal) => {
      const lanes = Map.groupBy(steps.filter(isForBackend), ({ executor }) => executor);
      const errors = await Promise.all([...lanes.values()].map((lane) => inOrder(lane, assignment, signal)));
      return errors.flat();
    },
  };
}

function isForBackend(step: Step): step is BackendStep {
  return step.do === "kill" || step.do === "mark" || step.do === "delete";
}
