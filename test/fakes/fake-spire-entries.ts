import type { NewSpireEntry, SpireEntries } from "../../controller/backends/local/spire-entries.ts";

/** Entries of a SPIRE server, in memory. */
export type FakeSpireEntries = SpireEntries & {
  readonly entries: readonly NewSpireEntry[];
  /** What somebody else has registered. */
  put(entry: NewSpireEntry): void;
  failNext(error: Error): void;
};

export function createFakeSpireEntries(): FakeSpireEntries {
  let entries: readonly NewSpireEntry[] = [];
  const failures: Error[] = [];
  const arrive = async () => {
    await Promise.resolve();
    const failure = failures.shift();
    if (failure !== undefined) throw failure;
  };
  const key = ({ spiffeId, parentId, selectors }: NewSpireEntry) =>
    JSON.stringify([spiffeId, parentId, selectors]);
  return {
    get entries() {
      return entries;
    },
    put: (entry) => {
      entries = [...entries, entry];
    },
    failNext: (error) => void failures.push(error),
    create: async (entry) => {
      await arrive();
      const similar = entries.find((other) => key(other) === key(entry));
      if (similar !== undefined) return { kind: "exists", id: similar.id };
      const by = entries.find((other) => other.id === entry.id);
      if (by !== undefined) return { kind: "id-taken", by };
      entries = [...entries, entry];
      return { kind: "created" };
    },
    remove: async (id) => {
      await arrive();
      entries = entries.filter((entry) => entry.id !== id);
    },
    below: async (parentId) => {
      await arrive();
      return entries.filter((entry) => entry.parentId === parentId);
    },
  };
}
