import { sameAssignment, type Assignment } from "../assignment/assignment.ts";
import { queuedRecord, type AssignmentRecord } from "../assignment/record.ts";
import { createKeyedQueue } from "../platform/keyed-queue.ts";
import { createWakeup } from "../platform/wakeup.ts";

export type VersionedRecord = { readonly record: AssignmentRecord; readonly revision: number };

type Write =
  | { readonly kind: "stored"; readonly stored: VersionedRecord }
  | { readonly kind: "conflict"; readonly current: VersionedRecord | undefined };

/** The durable side; it rejects while it cannot be reached, and the caller of ours tries again. */
export type RecordStore = {
  create(record: AssignmentRecord, signal: AbortSignal): Promise<Write>;
  update(record: AssignmentRecord, revision: number, signal: AbortSignal): Promise<Write>;
  remove(id: string, signal: AbortSignal): Promise<void>;
};

/** An assignment that is not over, as this controller knows it. */
export type LiveAssignment = {
  readonly record: AssignmentRecord;
  /** The gzipped task: in hand from the fetch, or from the scan at start, until the claim is recorded. */
  readonly compressedTask?: Uint8Array;
};

export type Offer = {
  readonly assignment: Assignment;
  readonly fetchedAt: number;
  readonly sequence: number;
  readonly compressedTask: Uint8Array;
};

/**
 * All live assignments. Memory is a copy of the records and never ahead of them: a change is stored first.
 * `within` is the one actor of an assignment; whoever changes it or acts on what it says does so in there.
 */
export type Assignments = {
  /** Takes in a task from the fetch, a delivery or the scan. The same one twice is fine. */
  offer(offer: Offer, signal: AbortSignal): Promise<"taken" | "conflict">;
  /** Takes in a record read at start. */
  restore(stored: VersionedRecord): void;
  get(id: string): LiveAssignment | undefined;
  /** Only if both the id and the SPIFFE ID are this assignment's. */
  resolve(id: string, spiffeId: string): LiveAssignment | undefined;
  all(): readonly LiveAssignment[];
  within<T>(id: string, work: () => Promise<T>): Promise<T>;
  /**
   * Stores what `next` makes of the record; the same record back is no write. On a conflict the stored record
   * is adopted and `next` decides afresh. Resolves to what is stored now.
   */
  change(
    id: string,
    next: (record: AssignmentRecord) => AssignmentRecord,
    signal: AbortSignal,
  ): Promise<AssignmentRecord>;
  /** Forgets an assignment that is over and has no executor any more. */
  remove(id: string, signal: AbortSignal): Promise<void>;
  /** Resolves when any assignment has changed; rejects with the signal's reason. */
  changed(signal: AbortSignal): Promise<void>;
};

/** A conflict means another writer; more than a few in a row mean that two controllers are leading. */
const maxConflicts = 5;

export function createAssignments(store: RecordStore): Assignments {
  const live = new Map<string, VersionedRecord & LiveAssignment>();
  const actors = createKeyedQueue();
  const changes = createWakeup();

  const put = (stored: VersionedRecord, compressedTask: Uint8Array | undefined) => {
    const { phase, assignment } = stored.record;
    // After the claim only the bootstrap has the task.
    const task = phase.name === "queued" || phase.name === "starting" ? compressedTask : undefined;
    live.set(assignment.id, { ...stored, ...(task === undefined ? {} : { compressedTask: task }) });
    changes.wake();
  };

  const offer = async (offered: Offer, signal: AbortSignal) => {
    // Named one by one: what else an offer may carry does not belong into a record.
    const { assignment, compressedTask, fetchedAt, sequence } = offered;
    let known = live.get(assignment.id);
    if (known === undefined) {
      const write = await store.create(queuedRecord(assignment, { fetchedAt, sequence }), signal);
      const stored = write.kind === "stored" ? write.stored : write.current;
      if (stored === undefined)
        throw new Error(`the record of ${assignment.id} came and went while it was made`);
      put(stored, compressedTask);
      known = live.get(assignment.id);
    }
    if (known !== undefined && !sameAssignment(known.record.assignment, assignment)) return "conflict";
    if (known !== undefined && known.compressedTask === undefined) put(known, compressedTask);
    return "taken";
  };

  const change: Assignments["change"] = async (id, next, signal) => {
    for (let conflicts = 0; conflicts < maxConflicts; conflicts++) {
      const known = live.get(id);
      if (known === undefined) throw new Error(`${id} is not known`);
      const wanted = next(known.record);
      if (wanted === known.record) return known.record;
      const write = await store.update(wanted, known.revision, signal);
      if (write.kind === "stored") {
        put(write.stored, known.compressedTask);
        return write.stored.record;
      }
      // Nobody but us removes records: an absent one was lost with its bucket, and memory writes it anew.
      const adopted = write.current ?? (await recreate(known.record, signal));
      if (adopted !== undefined) put(adopted, known.compressedTask);
    }
    throw new Error(`the record of ${id} was changed by somebody else ${maxConflicts} times in a row`);
  };

  const recreate = async (record: AssignmentRecord, signal: AbortSignal) => {
    const write = await store.create(record, signal);
    return write.kind === "stored" ? write.stored : write.current;
  };

  return {
    offer: (offered, signal) => actors.run(offered.assignment.id, () => offer(offered, signal)),
    restore: (stored) => {
      put(stored, undefined);
    },
    get: (id) => live.get(id),
    resolve: (id, spiffeId) => {
      const known = live.get(id);
      return known?.record.assignment.spiffeId === spiffeId ? known : undefined;
    },
    all: () => [...live.values()],
    within: (id, work) => actors.run(id, work),
    change,
    remove: async (id, signal) => {
      await store.remove(id, signal);
      live.delete(id);
      changes.wake();
    },
    changed: (signal) => changes.next(signal),
  };
}
