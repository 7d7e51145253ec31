import type { Assignment } from "../assignment/assignment.ts";
import type { Backend } from "../backends/backend.ts";
import { describeError } from "../platform/errors.ts";
import type { Logger } from "../platform/logger.ts";
import type { Assignments, VersionedRecord } from "./assignments.ts";

type QueuedMessage = {
  readonly sequence: number;
  readonly content:
    | {
        readonly kind: "assignment";
        readonly assignment: Assignment;
        readonly fetchedAt: number;
        readonly compressedTask: Uint8Array;
      }
    | { readonly kind: "invalid" | "unknown-key" };
};

export type RecoverOptions = {
  readonly records: {
    list(signal: AbortSignal): Promise<{
      readonly records: readonly VersionedRecord[];
      readonly invalid: readonly { readonly key: string; readonly reason: string }[];
    }>;
  };
  readonly backends: readonly {
    readonly backend: Pick<Backend, "kind" | "list">;
    readonly slots: { restore(id: string): void };
  }[];
  readonly queue: {
    scan(signal: AbortSignal): AsyncIterable<QueuedMessage>;
    remove(sequence: number, id: string, signal: AbortSignal): Promise<unknown>;
  };
  readonly assignments: Pick<Assignments, "restore" | "offer" | "get">;
  readonly log: Logger;
};

/**
 * Restores what an earlier controller knew, in this order: records, then each backend's executors (which hold
 * slots), then the messages, so that executors that wait for their task find it. A backend that cannot be
 * listed stops neither the other nor the start: its reconciler goes on trying.
 */
export async function recover(options: RecoverOptions, signal: AbortSignal): Promise<void> {
  const { records, backends, queue, assignments, log } = options;
  const stored = await records.list(signal);
  for (const record of stored.records) assignments.restore(record);
  const unreadable = new Set(stored.invalid.map(({ key }) => key));
  for (const { key, reason } of stored.invalid) log.error({ key, reason }, "record cannot be read");

  for (const { backend, slots } of backends) {
    try {
      const { executors } = await backend.list(signal);
      const alive = executors.filter(({ state }) => state.phase !== "ended");
      for (const { metadata } of alive) slots.restore(metadata.assignment.id);
      log.info(
        { backend: backend.kind, executors: executors.length, alive: alive.length },
        "executors found",
      );
    } catch (error) {
      if (signal.aborted) throw error;
      log.error({ backend: backend.kind, error: describeError(error) }, "backend lifecycle error");
    }
  }

  let messages = 0;
  for await (const { sequence, content } of queue.scan(signal)) {
    // What cannot be read is judged when it is delivered.
    if (content.kind !== "assignment") continue;
    messages++;
    const { id } = content.assignment;
    // Left for a person to look at; it must not keep all the others from starting.
    if (unreadable.has(id)) continue;
    const phase = assignments.get(id)?.record.phase.name;
    // A claimed task needs its message no more; the former controller did not come to acknowledge it.
    if (phase === "claimed" || phase === "finished") await queue.remove(sequence, id, signal);
    else await assignments.offer({ ...content, sequence }, signal);
  }
  log.info({ records: stored.records.length, messages }, "recovered");
}
