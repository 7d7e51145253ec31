import { sameAssignment, type Assignment } from "../assignment/assignment.ts";
import type { AssignmentEvent } from "../assignment/event.ts";
import { next } from "../assignment/next.ts";
import { isForLeader } from "../assignment/who-decides.ts";
import { isUnclaimed, queuedRecord, type AssignmentRecord } from "../assignment/record.ts";
import type { Attempt } from "../identity/capability.ts";
import type { Clock } from "../platform/clock.ts";
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
export type LiveAssignment = VersionedRecord & {
  /** The gzipped task: in hand from the fetch, or from the scan at start, until the claim is recorded. */
  readonly compressedTask?: Uint8Array;
};

export type Offer = {
  readonly assignment: Assignment;
  readonly fetchedAt: number;
  readonly sequence: number;
  readonly compressedTask: Uint8Array;
  /** It was just fetched. What comes from the queue may have had a record that got lost. */
  readonly isNew?: boolean;
};

/** An executor without a record: what stands on it is all that is known. */
export type Orphan = {
  readonly assignment: Assignment;
  readonly attempt: Attempt;
  readonly createdAt: number;
  /** Its message, if that is there still: what is in it is handed to the executor that asks first. */
  readonly message?: Omit<Offer, "assignment">;
};

export type Applied = {
  readonly record: AssignmentRecord;
  /** Why the event changed nothing; undefined if it did. */
  readonly ignored?: string;
};

/** A change that is stored, for those who tell people of it. `before` is absent for an assignment that is new. */
export type StoredChange = {
  readonly event: AssignmentEvent["type"] | "offered" | "orphan_found" | "forgotten";
  readonly before?: AssignmentRecord;
  readonly after: AssignmentRecord;
};

/**
 * All live assignments. Memory is a copy of the records and never ahead of them: a change is stored first.
 * `within` is the one actor of an assignment; whoever changes it or acts on what it says does so in there.
 */
export type Assignments = {
  /** Takes in a task from the fetch, a delivery or the scan. The same one twice is fine. */
  offer(offer: Offer, signal: AbortSignal): Promise<"taken" | "conflict">;
  /** Makes a record for an executor that has none; it counts as claimed from then on. To be run as its actor. */
  adopt(orphan: Orphan, signal: AbortSignal): Promise<AssignmentRecord>;
  /**
   * Writes the record anew if it is not stored any more, or as it was before: its bucket was lost, or the end of it.
   * To be run as its actor. Resolves to whether it was written.
   */
  keep(id: string, signal: AbortSignal): Promise<boolean>;
  /** Takes in a record read at start. */
  restore(stored: VersionedRecord): void;
  get(id: string): LiveAssignment | undefined;
  /** Only if both the id and the SPIFFE ID are this assignment's. */
  resolve(id: string, spiffeId: string): LiveAssignment | undefined;
  all(): readonly LiveAssignment[];
  within<T>(id: string, work: () => Promise<T>): Promise<T>;
  /**
   * Stores what an event makes of the record; one that is ignored is no write. On a conflict the stored record is
   * adopted and the event decided afresh. Rejects while nothing can be stored, for an unknown id, and for what only a
   * leader may decide if this process leads no more.
   */
  apply(id: string, event: AssignmentEvent, signal: AbortSignal): Promise<Applied>;
  /** Forgets an assignment that is over and has no executor any more. */
  remove(id: string, signal: AbortSignal): Promise<void>;
  /** Resolves when any assignment has changed; rejects with the signal's reason. */
  changed(signal: AbortSignal): Promise<void>;
};

export type AssignmentsOptions = {
  readonly store: RecordStore;
  readonly clock: Pick<Clock, "now">;
  /** Hears of each change, in order; must not throw. */
  readonly onChange?: (change: StoredChange) => void;
  /** Throws if this process leads no more. Asked right before each write that only a leader may make. */
  readonly mustLead?: () => void;
};

/** A conflict means another writer; more than a few in a row mean that two controllers are leading. */
const maxConflicts = 5;

export function createAssignments({
  store,
  clock,
  onChange,
  mustLead = () => undefined,
}: AssignmentsOptions): Assignments {
  const live = new Map<string, LiveAssignment>();
  const actors = createKeyedQueue();
  const changes = createWakeup();

  const put = (stored: VersionedRecord, compressedTask: Uint8Array | undefined) => {
    const { record } = stored;
    // After the claim only the bootstrap has the task; one whose record was lost may still ask for it.
    const needed = isUnclaimed(record) || record.phase.name === "adopted";
    const task = needed ? compressedTask : undefined;
    live.set(record.assignment.id, { ...stored, ...(task === undefined ? {} : { compressedTask: task }) });
    changes.wake();
  };

  /** Makes a record, or takes over the one that is there. */
  const enter = async (
    record: AssignmentRecord,
    event: "offered" | "orphan_found",
    compressedTask: Uint8Array | undefined,
    signal: AbortSignal,
  ): Promise<AssignmentRecord> => {
    for (let conflicts = 0; conflicts < maxConflicts; conflicts++) {
      const write = await store.create(record, signal);
      const stored = write.kind === "stored" ? write.stored : write.current;
      // Another controller, at the end of its time, has just removed it.
      if (stored === undefined) continue;
      put(stored, compressedTask);
      if (write.kind === "stored") onChange?.({ event, after: stored.record });
      return stored.record;
    }
    throw new Error(
      `the record of ${record.assignment.id} came and went ${maxConflicts} times while it was made`,
    );
  };

  const offer = async (offered: Offer, signal: AbortSignal) => {
    // Named one by one: what else an offer may carry does not belong into a record.
    const { assignment, compressedTask, fetchedAt, sequence, isNew = false } = offered;
    const known = live.get(assignment.id);
    if (known === undefined) {
      const entered = await enter(
        queuedRecord(assignment, { fetchedAt, sequence, rowsBegun: !isNew }),
        "offered",
        compressedTask,
        signal,
      );
      return sameAssignment(entered.assignment, assignment) ? "taken" : "conflict";
    }
    if (!sameAssignment(known.record.assignment, assignment)) return "conflict";
    if (known.compressedTask === undefined) put(known, compressedTask);
    return "taken";
  };

  const apply: Assignments["apply"] = async (id, event, signal) => {
    for (let conflicts = 0; conflicts < maxConflicts; conflicts++) {
      const known = live.get(id);
      if (known === undefined) throw new Error(`${id} is not known`);
      const wanted = next(known.record, event, clock.now());
      if (!wanted.moved) return { record: known.record, ignored: wanted.because };
      if (isForLeader(event.type)) mustLead();
      const write = await store.update(wanted.record, known.revision, signal);
      if (write.kind === "stored") {
        put(write.stored, known.compressedTask);
        onChange?.({ event: event.type, before: known.record, after: write.stored.record });
        return { record: write.stored.record };
      }
      // Nobody but us removes records: an absent one was lost with its bucket, and memory writes it anew.
      const adopted = write.current ?? (await recreate(known.record, signal));
      if (adopted !== undefined) put(adopted, known.compressedTask);
    }
    throw new Error(`the record of ${id} was changed by somebody else ${maxConflicts} times in a row`);
  };

  const recreate = async (record: AssignmentRecord, signal: AbortSignal) => {
    // Who leads now may have removed it.
    mustLead();
    const write = await store.create(record, signal);
    return write.kind === "stored" ? write.stored : write.current;
  };

  return {
    offer: (offered, signal) => actors.run(offered.assignment.id, () => offer(offered, signal)),
    adopt: async ({ assignment, attempt, createdAt, message }, signal) => {
      const known = live.get(assignment.id);
      if (known !== undefined) return known.record;
      const { fetchedAt, sequence } = message ?? { fetchedAt: createdAt, sequence: 0 };
      const lost = queuedRecord(assignment, { fetchedAt, sequence, rowsBegun: true });
      const adopted = next(lost, { type: "executor_adopted", attempt }, clock.now());
      mustLead();
      return enter(adopted.moved ? adopted.record : lost, "orphan_found", message?.compressedTask, signal);
    },
    keep: async (id, signal) => {
      const known = live.get(id);
      if (known === undefined) return false;
      mustLead();
      const write = await store.create(known.record, signal);
      const stored = write.kind === "stored" ? write.stored : write.current;
      if (stored !== undefined) put(stored, known.compressedTask);
      return write.kind === "stored";
    },
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
    apply,
    remove: async (id, signal) => {
      const known = live.get(id);
      mustLead();
      await store.remove(id, signal);
      live.delete(id);
      changes.wake();
      if (known !== undefined) onChange?.({ event: "forgotten", before: known.record, after: known.record });
    },
    changed: (signal) => changes.next(signal),
  };
}
