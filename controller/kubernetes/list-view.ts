import type { Seen } from "./document.ts";
import type { WatchEvent } from "./kubernetes-api.ts";

/** A collection in memory. Whatever changes it says what became of each object, in the order in which it did. */
export type ListView = {
  /** The same array as long as nothing has changed. */
  readonly all: () => readonly unknown[];
  /** A whole list takes the place of all that was known. */
  readonly replace: (list: readonly Seen[]) => readonly WatchEvent[];
  readonly apply: (type: Exclude<WatchEvent["type"], "BOOKMARK">, seen: Seen) => readonly WatchEvent[];
};

export function createListView(): ListView {
  const known = new Map<string, Seen>();
  let all: readonly unknown[] | undefined;

  const put = (seen: Seen): readonly WatchEvent[] => {
    const before = known.get(seen.name);
    known.set(seen.name, seen);
    all = undefined;
    const now = { object: seen.document };
    if (before === undefined) return [{ type: "ADDED", ...now }];
    // Another object under the old name: the end of the first one was not seen.
    if (before.uid !== seen.uid)
      return [
        { type: "DELETED", object: before.document },
        { type: "ADDED", ...now },
      ];
    return before.resourceVersion === seen.resourceVersion ? [] : [{ type: "MODIFIED", ...now }];
  };

  return {
    all: () => (all ??= [...known.values()].map(({ document }) => document)),
    replace: (list) => {
      const names = new Set(list.map(({ name }) => name));
      const vanished = [...known.values()].filter(({ name }) => !names.has(name));
      for (const { name } of vanished) known.delete(name);
      all = undefined;
      return [
        ...vanished.map(({ document }): WatchEvent => ({ type: "DELETED", object: document })),
        ...list.flatMap(put),
      ];
    },
    apply: (type, seen) => {
      if (type !== "DELETED") return put(seen);
      known.delete(seen.name);
      all = undefined;
      return [{ type: "DELETED", object: seen.document }];
    },
  };
}
