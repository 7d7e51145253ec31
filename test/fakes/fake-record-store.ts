import type { AssignmentRecord } from "../../controller/assignment/record.ts";
import type { RecordStore, VersionedRecord } from "../../controller/lifecycle/assignments.ts";

import { abortable } from "../../controller/platform/signal.ts";

export type RecordMethod = "create" | "update" | "remove";

/** Records in memory, changed by compare-and-set as in the bucket. */
export type FakeRecordStore = RecordStore & {
  /** What is stored now, as a controller that starts reads it. */
  list(): Promise<{
    readonly records: readonly VersionedRecord[];
    readonly invalid: readonly never[];
    readonly setAside: readonly never[];
  }>;
  readonly stored: ReadonlyMap<string, VersionedRecord>;
  /** What each write wanted to be the phase, in order, also of those that failed; removals as "removed". */
  readonly writes: readonly string[];
  /** The next call of the method rejects; with `done` after it took effect, as when the answer is lost. */
  failNext(method: RecordMethod, error: Error, options?: { readonly done?: boolean }): void;
  /** Calls of the method wait until the returned function is called, or their signal is aborted. */
  hold(method: RecordMethod): () => void;
  /** Somebody else writes. */
  overwrite(record: AssignmentRecord): void;
  /** The bucket is gone and made anew. */
  lose(): void;
};

export function createFakeRecordStore(): FakeRecordStore {
  const stored = new Map<string, VersionedRecord>();
  const writes: string[] = [];
  const failures: { readonly method: RecordMethod; readonly error: Error; readonly done: boolean }[] = [];
  const holds = new Map<RecordMethod, Promise<void>>();
  let revision = 0;

  const call = async <T>(method: RecordMethod, signal: AbortSignal, effect: () => T): Promise<T> => {
    signal.throwIfAborted();
    // As over a network: never at once.
    await Promise.resolve();
    const held = holds.get(method);
    if (held !== undefined) await abortable(held, signal);
    const index = failures.findIndex((failure) => failure.method === method);
    const [failure] = index === -1 ? [] : failures.splice(index, 1);
    if (failure !== undefined && !failure.done) throw failure.error;
    const result = effect();
    if (failure !== undefined) throw failure.error;
    return result;
  };
  const put = (record: AssignmentRecord): VersionedRecord => {
    const next = { record, revision: ++revision };
    stored.set(record.assignment.id, next);
    return next;
  };
  const write = (record: AssignmentRecord, expected: number) => {
    const current = stored.get(record.assignment.id);
    if ((current?.revision ?? 0) !== expected) return { kind: "conflict", current } as const;
    return { kind: "stored", stored: put(record) } as const;
  };

  return {
    stored,
    writes,
    list: async () => ({ records: [...stored.values()], invalid: [], setAside: [] }),
    create: (record, signal) => {
      writes.push(record.phase.name);
      return call("create", signal, () => write(record, 0));
    },
    update: (record, expected, signal) => {
      writes.push(record.phase.name);
      return call("update", signal, () => write(record, expected));
    },
    remove: (id, signal) => {
      writes.push("removed");
      return call("remove", signal, () => void stored.delete(id));
    },
    failNext: (method, error, { done = false } = {}) => void failures.push({ method, error, done }),
    hold: (method) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      holds.set(method, promise);
      return () => {
        holds.delete(method);
        resolve();
      };
    },
    overwrite: (record) => void put(record),
    lose: () => stored.clear(),
  };
}
