import { taskIdOf } from "../assignment/assignment.ts";
import type { AssignmentRecord } from "../assignment/record.ts";
import { describeError } from "../platform/errors.ts";
import type { Entry, KeyValue } from "../platform/key-value.ts";
import type { Logger } from "../platform/logger.ts";
import { isAbortOf } from "../platform/signal.ts";
import { fromBucket, InvalidRecordError, RecordStoreUnavailableError } from "./errors.ts";
import { decodeRecord, encodeRecord, sameRecord, type Writer } from "./record-codec.ts";
import { createSetAside } from "./set-aside.ts";

export type Versioned = {
  readonly record: AssignmentRecord;
  /** For the next compare-and-set. Good in this bucket only. */
  readonly revision: number;
};

export type InvalidRecord = { readonly key: string; readonly reason: string };

export type WriteOutcome =
  | { readonly kind: "stored"; readonly stored: Versioned }
  /** Somebody else was first: this is what stands there now. Undefined: the key is absent. */
  | { readonly kind: "conflict"; readonly current: Versioned | undefined };

export type RemoveOutcome =
  { readonly kind: "removed" } | { readonly kind: "conflict"; readonly current: Versioned };

/** All that is stored. */
export type ListedRecords = {
  readonly records: readonly Versioned[];
  /** Values that are no records. */
  readonly invalid: readonly InvalidRecord[];
  /** Where those are kept that had to make room for a record. */
  readonly setAside: readonly string[];
};

/**
 * The records of all assignments, changed by compare-and-set only. Calls reject with RecordStoreUnavailableError
 * (the same call may be made again), InvalidRecordError for a key whose value cannot be read, or the signal's
 * reason. A write whose answer gets lost is looked up: if it stands there it is a success, also when it was made by
 * an earlier call that gave up. What stands there and is older than what a caller has heard of before is no conflict:
 * the bucket has lost its end, and the write takes its place.
 */
export type RecordStore = {
  /** All records; a value that is none is told apart and stops nothing. */
  list(signal: AbortSignal): Promise<ListedRecords>;
  get(assignmentId: string, signal: AbortSignal): Promise<Versioned | undefined>;
  /**
   * A value that cannot be read is set aside, and the record written in its place. Only those who lead create
   * records: an `update` of another may have met what a newer version has written, and leaves it alone.
   */
  create(record: AssignmentRecord, signal: AbortSignal): Promise<WriteOutcome>;
  update(record: AssignmentRecord, revision: number, signal: AbortSignal): Promise<WriteOutcome>;
  /** Removes a record, or only if it is at this revision; one that is gone is removed. Leaves no tombstone. */
  remove(assignmentId: string, revision: number | undefined, signal: AbortSignal): Promise<RemoveOutcome>;
};

export type RecordStoreOptions = {
  readonly bucket: KeyValue;
  /** Different for every process, for ever. */
  readonly writerId: string;
  readonly log: Logger;
};

export function createRecordStore(options: RecordStoreOptions): RecordStore {
  const { bucket, writerId, log } = options;
  const aside = createSetAside(bucket);
  let counter = 0;
  /** How many writes had made each record what it was when a caller of ours last heard of it. */
  const seenWrites = new Map<string, number>();

  const read = async (id: string, signal: AbortSignal) => {
    try {
      const entry = await bucket.read(id, signal);
      return entry === undefined ? undefined : known(entry);
    } catch (error) {
      throw fromBucket(`reading the record of ${id}`, error, signal);
    }
  };

  /** Writes at this revision, or learns who has written. */
  const writeAt = async (
    record: AssignmentRecord,
    expected: number,
    writes: number,
    signal: AbortSignal,
  ): Promise<Attempted> => {
    const { id } = record.assignment;
    const writer = { id: writerId, counter: ++counter, writes };
    const value = encodeRecord(record, writer);
    let failure: unknown;
    // A read right after a write without an answer may overtake it. The same write again cannot: the stream takes one
    // after the other, so its answer tells of the first as well.
    for (let tries = 0; tries < 2; tries++) {
      try {
        const written = await bucket.write(id, value, expected, signal);
        if (written.kind === "stored")
          return { kind: "stored", found: { record, writer, revision: written.revision } };
        failure = undefined;
        break;
      } catch (error) {
        if (isAbortOf(signal, error)) throw error;
        failure = error;
        log.warn({ assignment: id, error: describeError(error) }, "outcome of a record's write is open");
      }
    }
    const current = await read(id, signal);
    if (current !== undefined && isOurs(current, record, writer))
      return { kind: "stored", found: { ...current, record } };
    if (failure !== undefined && (current?.revision ?? 0) === expected) {
      const message = `the record of ${id} is not written`;
      throw new RecordStoreUnavailableError("unreachable", message, { cause: failure });
    }
    return { kind: "conflict", current };
  };

  const write = async (
    record: AssignmentRecord,
    expected: number,
    signal: AbortSignal,
  ): Promise<WriteOutcome> => {
    const { id } = record.assignment;
    const before = seenWrites.get(id) ?? 0;
    let attempted = await writeAt(record, expected, before + 1, signal);
    if (
      attempted.kind === "conflict" &&
      attempted.current !== undefined &&
      isOlder(attempted.current, before)
    ) {
      const { revision } = attempted.current;
      log.error({ assignment: id, revision }, "the bucket has lost its end, the record is written anew");
      attempted = await writeAt(record, revision, before + 1, signal);
    }
    const now = attempted.kind === "stored" ? attempted.found : attempted.current;
    if (now === undefined) return { kind: "conflict", current: undefined };
    seenWrites.set(id, writesOf(now));
    const stands = versioned(now);
    return attempted.kind === "stored"
      ? { kind: "stored", stored: stands }
      : { kind: "conflict", current: stands };
  };

  /** Whether there was such a value, and its key is free now. */
  const makeRoom = async (id: string, signal: AbortSignal): Promise<boolean> => {
    try {
      const entry = await bucket.read(id, signal);
      const reason = entry === undefined ? undefined : unreadable(entry);
      if (entry === undefined || reason === undefined) return false;
      const kept = await aside.put(entry, signal);
      log.error({ assignment: id, reason, kept }, "record that cannot be read is set aside");
      return true;
    } catch (error) {
      throw fromBucket(`setting the record of ${id} aside`, error, signal);
    }
  };

  const create = async (record: AssignmentRecord, signal: AbortSignal) => {
    try {
      return await write(record, 0, signal);
    } catch (error) {
      if (!(error instanceof InvalidRecordError) || !(await makeRoom(record.assignment.id, signal)))
        throw error;
      return write(record, 0, signal);
    }
  };

  return {
    list: async (signal) => {
      const records = new Map<string, Versioned>();
      const invalid = new Map<string, InvalidRecord>();
      try {
        for await (const entry of bucket.entries(signal)) {
          const { key } = entry;
          // The bucket holds other keys, the leader's for one.
          if (taskIdOf(key) === undefined) continue;
          records.delete(key);
          invalid.delete(key);
          const found = parsed(entry);
          if (typeof found === "string") invalid.set(key, { key, reason: found });
          else {
            records.set(key, versioned(found));
            if (!seenWrites.has(key)) seenWrites.set(key, writesOf(found));
          }
        }
        const setAside = await aside.list(signal);
        return { records: [...records.values()], invalid: [...invalid.values()], setAside };
      } catch (error) {
        throw fromBucket("listing the records", error, signal);
      }
    },
    get: async (id, signal) => {
      const found = await read(id, signal);
      return found === undefined ? undefined : versioned(found);
    },
    create,
    update: (record, revision, signal) => write(record, revision, signal),
    remove: async (id, revision, signal) => {
      try {
        await bucket.purge(id, revision, signal);
      } catch (error) {
        throw fromBucket(`removing the record of ${id}`, error, signal);
      }
      const current = revision === undefined ? undefined : await read(id, signal);
      if (current !== undefined) return { kind: "conflict", current: versioned(current) };
      seenWrites.delete(id);
      return { kind: "removed" };
    },
  };
}

type Found = Versioned & { readonly writer: Writer };

type Attempted =
  | { readonly kind: "stored"; readonly found: Found }
  | { readonly kind: "conflict"; readonly current: Found | undefined };

/** What stands there, or why that is no record. */
function parsed({ key, value, revision }: Entry): Found | string {
  const decoded = decodeRecord(value);
  if (!decoded.ok) return decoded.reason;
  if (decoded.record.assignment.id !== key) return "it is another assignment's";
  return { record: decoded.record, writer: decoded.writer, revision };
}

function unreadable(entry: Entry): string | undefined {
  const found = parsed(entry);
  return typeof found === "string" ? found : undefined;
}

function known(entry: Entry): Found {
  const found = parsed(entry);
  if (typeof found === "string")
    throw new InvalidRecordError(`the record of ${entry.key} is unreadable`, { cause: found });
  return found;
}

/** The write itself, or the same words by an earlier call of ours that did not learn its outcome. */
function isOurs({ record, writer }: Found, written: AssignmentRecord, by: Writer): boolean {
  return writer.id === by.id && (writer.counter === by.counter || sameRecord(record, written));
}

function versioned({ record, revision }: Found): Versioned {
  return { record, revision };
}

function writesOf({ writer }: Found): number {
  return writer.writes ?? 0;
}

function isOlder(found: Found, seen: number): boolean {
  return writesOf(found) < seen;
}
