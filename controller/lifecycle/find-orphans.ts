import type { Times } from "../assignment/times.ts";
import type { Backend, Executor } from "../backends/backend.ts";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import type { Logger } from "../platform/logger.ts";
import { withDeadline } from "../platform/signal.ts";
import type { Assignments } from "./assignments.ts";
import { isAlive, orphanOf } from "./seen.ts";

export type OrphanOptions = {
  readonly backends: readonly {
    readonly backend: Pick<Backend, "kind" | "list">;
    readonly slots: { restore(id: string): void };
  }[];
  readonly assignments: Pick<Assignments, "get" | "adopt" | "within">;
  readonly times: Pick<Times, "callMs">;
  readonly clock: Clock;
  readonly log: Logger;
};

/** The executors without a record, by assignment; all that live get a slot. */
export async function findOrphans(
  { backends, assignments, times, clock, log }: OrphanOptions,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, Executor>> {
  const orphans = new Map<string, Executor>();
  const look = async ({ backend, slots }: OrphanOptions["backends"][number]) => {
    try {
      const call = (deadline: AbortSignal) => backend.list(deadline);
      const { executors } = await withDeadline(clock, times.callMs, call, signal);
      const alive = executors.filter(isAlive);
      for (const { metadata } of alive) slots.restore(metadata.assignment.id);
      for (const [id, own] of Map.groupBy(executors, ({ metadata }) => metadata.assignment.id)) {
        const orphan = orphanOf(own);
        if (orphan !== undefined && assignments.get(id) === undefined) orphans.set(id, orphan);
      }
      const counts = { executors: executors.length, alive: alive.length };
      log.info({ backend: backend.kind, ...counts }, "executors found");
    } catch (error) {
      if (signal.aborted) throw error;
      log.error({ backend: backend.kind, error: describeError(error) }, "backend lifecycle error");
    }
  };
  await Promise.all(backends.map(look));
  return orphans;
}

/** Gives it a record; from then on it counts as claimed. */
export async function adoptOrphan(
  { assignments, log }: OrphanOptions,
  id: string,
  { name, metadata, createdAt }: Executor,
  signal: AbortSignal,
): Promise<void> {
  await assignments.within(id, () => assignments.adopt({ ...metadata, createdAt }, signal));
  log.warn({ assignment: id, executor: name }, "executor without a record adopted");
}
