import type { Executor, InvalidExecutor } from "../backends/backend.ts";
import type { Logger } from "../platform/logger.ts";
import { isAlive } from "./seen.ts";

/** The part of a pool of slots that is brought in line with what there is. */
export type HeldSlots = {
  has(id: string): boolean;
  restore(id: string): void;
  release(id: string): void;
  held(): readonly string[];
};

/** Stands before the names of executors that belong to no assignment. */
const invalidPrefix = "invalid/";

/**
 * What lives has a slot unless it lingers, and what nobody knows has none: memory is never trusted alone. `isKnown`
 * tells whether there is a record; the slot of one that has is given back by the steps of its assignment.
 */
export function holdSlots(
  slots: HeldSlots,
  executors: readonly Executor[],
  lingering: ReadonlySet<string>,
  isKnown: (id: string) => boolean,
): void {
  const holders = executors.filter((executor) => isAlive(executor) && !lingering.has(executor.name));
  for (const { metadata } of holders) slots.restore(metadata.assignment.id);
  const there = new Set(holders.map(({ metadata }) => metadata.assignment.id));
  for (const id of slots.held())
    if (!id.startsWith(invalidPrefix) && !there.has(id) && !isKnown(id)) slots.release(id);
}

/** What does not validate is reported and takes a slot as long as it is there, and stops nothing. */
export function holdInvalid(
  slots: HeldSlots,
  invalid: readonly InvalidExecutor[],
  lingering: ReadonlySet<string>,
  log: Logger,
): void {
  const there = new Set(
    invalid.filter(({ name }) => !lingering.has(name)).map(({ name }) => invalidPrefix + name),
  );
  for (const { name, reason } of invalid) {
    if (!there.has(invalidPrefix + name) || slots.has(invalidPrefix + name)) continue;
    log.error({ executor: name, reason }, "executor with invalid metadata takes a slot");
    slots.restore(invalidPrefix + name);
  }
  for (const id of slots.held()) if (id.startsWith(invalidPrefix) && !there.has(id)) slots.release(id);
}
