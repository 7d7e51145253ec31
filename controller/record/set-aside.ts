import { taskIdOf } from "../assignment/assignment.ts";
import type { Entry, KeyValue } from "../platform/key-value.ts";

/** Values that stood where a record belongs and cannot be read, kept beside the records for a person to look at. */
export type SetAside = {
  /**
   * Keeps the value under another key, then frees its own, unless that holds another value by now. Resolves to where
   * it is kept. Doing it again is fine.
   */
  put(entry: Entry, signal: AbortSignal): Promise<string>;
  /** The keys of what is kept. */
  list(signal: AbortSignal): Promise<readonly string[]>;
};

/** Keys with a dot are no records. */
const ending = ".unreadable";
/** Nobody looks at more; those of the oldest tasks go. */
const mostKept = 20;
/** Many times what a record takes. More might not fit into a message with its new name. */
const mostBytes = 64 * 1024;

export function createSetAside(bucket: Pick<KeyValue, "read" | "keys" | "write" | "purge">): SetAside {
  const dropOldest = async (signal: AbortSignal) => {
    const keys = await bucket.keys(`*${ending}`, signal);
    const oldestFirst = keys.toSorted((a, b) => (taskOf(a) < taskOf(b) ? -1 : 1));
    for (const key of oldestFirst.slice(0, Math.max(0, keys.length - mostKept)))
      await bucket.purge(key, undefined, signal);
  };

  return {
    put: async ({ key, value, revision }, signal) => {
      const name = `${key}${ending}`;
      const before = await bucket.read(name, signal);
      // A conflict is another controller, which keeps the same value.
      await bucket.write(name, value.subarray(0, mostBytes), before?.revision ?? 0, signal);
      await bucket.purge(key, revision, signal);
      await dropOldest(signal);
      return name;
    },
    list: async (signal) => {
      const kept: string[] = [];
      for (const key of await bucket.keys(`*${ending}`, signal))
        // A person's tool may leave a marker where it has deleted one.
        if ((await bucket.read(key, signal)) !== undefined) kept.push(key);
      return kept;
    },
  };
}

function taskOf(key: string): bigint {
  return taskIdOf(key.slice(0, -ending.length)) ?? 0n;
}
