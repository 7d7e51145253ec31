import type { LeasePort } from "../../controller/lifecycle/lease-keeper.ts";
import type { LeaseRecord, StoredLease } from "../../controller/lifecycle/lease.ts";

/** A Lease as an API server keeps it: a write names the version that it replaces. */
export type FakeLease = LeasePort & {
  readonly stored: StoredLease | undefined;
  /** All writes that were accepted. */
  readonly writes: readonly LeaseRecord[];
  /** What somebody does by hand; undefined: deletes it. */
  edit(record: LeaseRecord | undefined): void;
  /** Something beside the record is changed: only the version is another one. */
  touch(): void;
  /** Calls reject from now on, or do not any more. */
  setAway(away: boolean): void;
  /** The next write is accepted, and its answer gets lost. */
  loseNextAnswer(): void;
  /** Calls do not settle until the function is called. */
  hold(): () => void;
};

export function createFakeLease(): FakeLease {
  let stored: StoredLease | undefined;
  let versions = 0;
  let away = false;
  let losing = false;
  let open: Promise<void> = Promise.resolve();
  const writes: LeaseRecord[] = [];
  const put = (record: LeaseRecord): StoredLease => {
    stored = { record, version: String(++versions) };
    return stored;
  };
  const arrive = async () => {
    await open;
    if (away) throw new Error("connect ECONNREFUSED");
  };
  const accept = (record: LeaseRecord): StoredLease => {
    writes.push(record);
    const now = put(record);
    if (!losing) return now;
    losing = false;
    throw new Error("socket hang up");
  };
  return {
    get stored() {
      return stored;
    },
    writes,
    edit: (record) => {
      if (record === undefined) stored = undefined;
      else put(record);
    },
    touch: () => {
      if (stored !== undefined) put(stored.record);
    },
    setAway: (value) => void (away = value),
    loseNextAnswer: () => void (losing = true),
    hold: () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      open = promise;
      return resolve;
    },
    get: async () => {
      await arrive();
      return stored;
    },
    create: async (record) => {
      await arrive();
      return stored === undefined ? accept(record) : undefined;
    },
    update: async (record, version) => {
      await arrive();
      return stored?.version === version ? accept(record) : undefined;
    },
  };
}
