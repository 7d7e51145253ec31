import type { Entry, KeyValue } from "../../controller/platform/key-value.ts";

/** A bucket in memory, whose end can get lost. */
export type FakeKeyValue = KeyValue & {
  /** The revision of the last write. */
  readonly revision: number;
  /** What was done after this revision is undone, as by a power failure of a server that had not written it to disk. */
  setBack(revision: number): void;
};

type Change = { readonly revision: number; readonly keys: (key: string) => boolean; readonly entry?: Entry };

export function createFakeKeyValue(): FakeKeyValue {
  let changes: Change[] = [];
  let revision = 0;

  const entries = (): ReadonlyMap<string, Entry> => {
    const now = new Map<string, Entry>();
    for (const { keys, entry } of changes) {
      for (const key of now.keys()) if (keys(key)) now.delete(key);
      if (entry !== undefined) now.set(entry.key, entry);
    }
    return now;
  };
  const answer = async <T>(signal: AbortSignal, effect: () => T): Promise<T> => {
    signal.throwIfAborted();
    // As over a network: never at once.
    await Promise.resolve();
    return effect();
  };

  return {
    get revision() {
      return revision;
    },
    setBack: (to) => {
      changes = changes.filter((change) => change.revision <= to);
      revision = to;
    },
    read: (key, signal) => answer(signal, () => entries().get(key)),
    entries: async function* (signal) {
      for (const entry of await answer(signal, () => [...entries().values()]))
        if (!entry.key.includes(".")) yield entry;
    },
    keys: (pattern, signal) => answer(signal, () => [...entries().keys()].filter(matching(pattern))),
    write: (key, value, expected, signal) =>
      answer(signal, () => {
        if ((entries().get(key)?.revision ?? 0) !== expected) return { kind: "conflict" } as const;
        revision++;
        changes.push({ revision, keys: (other) => other === key, entry: { key, value, revision } });
        return { kind: "stored", revision } as const;
      }),
    purge: (key, upTo, signal) =>
      answer(signal, () => {
        const matches = matching(key);
        const gone = [...entries().values()]
          .filter((entry) => matches(entry.key) && (upTo === undefined || entry.revision <= upTo))
          .map((entry) => entry.key);
        if (gone.length > 0) changes.push({ revision, keys: (other) => gone.includes(other) });
      }),
  };
}

/** As subjects match: `*` is one part of a name, `>` all that follow. */
function matching(pattern: string): (key: string) => boolean {
  const parts = pattern.split(".").map((part) => (part === "*" ? "[^.]+" : part === ">" ? ".+" : part));
  const expression = new RegExp(`^${parts.join("\\.")}$`);
  return (key) => expression.test(key);
}
