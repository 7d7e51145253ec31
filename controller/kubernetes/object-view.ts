import type { WatchedList } from "./watched-list.ts";
import type { SteadyClock } from "../platform/clock.ts";

/** What tells one object, and one version of it, from another. */
export type Versioned = {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
};

/**
 * What is known of a collection's objects: what the watch has shown, and what calls have answered meanwhile. The
 * watch may be behind: a Pod that we have just made is there, and one that is gone does not come back.
 */
export type ObjectView<T extends Versioned> = {
  all(): readonly T[];
  get(name: string): T | undefined;
  /** Takes in what a call answered. */
  note(object: T): void;
  /** An uncached read says that there is no object of this UID: it never comes back. */
  noteGone(object: T): void;
  /** A list lacks it. It may only have lost the labels that are listed by. */
  noteAbsent(object: T): void;
  /** What only a call has told of, for so long that the watch should have shown it. */
  unconfirmed(ms: number): readonly T[];
};

export type ObjectViewOptions<T extends Versioned> = {
  readonly list: Pick<WatchedList, "documents" | "onChange">;
  readonly parse: (document: unknown) => T;
  /** An object is not in the view any more; as it was last seen. */
  readonly onGone: (last: T) => void;
  readonly onChange: (name: string) => void;
  readonly steady: SteadyClock;
};

/** No answer is so late that more objects than these have gone meanwhile. */
const rememberGone = 1_000;

export function createObjectView<T extends Versioned>(options: ObjectViewOptions<T>): ObjectView<T> {
  const { list, parse, steady } = options;
  const watched = new Map<string, { readonly document: unknown; readonly object: T }>();
  let synced: readonly unknown[] | undefined;
  const noted = new Map<string, { readonly object: T; readonly at: number }>();
  /** By UID, as they were last seen; what is gone for sure has no version after that. */
  const gone = new Map<string, T | "for ever">();

  const isGone = (object: T): boolean => {
    const last = gone.get(object.uid);
    return last !== undefined && (last === "for ever" || newer(last, object) === last);
  };

  const goes = (object: T, surely: boolean) => {
    const own = noted.get(object.name)?.object;
    const last = own?.uid === object.uid ? newer(own, object) : object;
    if (own?.uid === object.uid) noted.delete(object.name);
    const news = !isGone(last);
    gone.delete(object.uid);
    gone.set(object.uid, surely ? "for ever" : last);
    for (const uid of gone.keys()) {
      if (gone.size <= rememberGone) break;
      gone.delete(uid);
    }
    if (news) options.onGone(last);
  };

  const take = (document: unknown): T => {
    const object = parse(document);
    watched.set(object.name, { document, object });
    const own = noted.get(object.name)?.object;
    if (own !== undefined && newer(object, own) === object) noted.delete(object.name);
    return object;
  };

  /** Level-triggered: whatever the watch told or kept to itself, the difference counts. */
  const sync = (last?: T) => {
    const documents = list.documents();
    // It is asked about every Pod in turn.
    if (documents === synced) return;
    synced = documents;
    const before = new Map(watched);
    const there = new Set<string>();
    const known = new Map([...before.values()].map(({ document, object }) => [document, object]));
    for (const document of documents) {
      const object = known.get(document) ?? take(document);
      there.add(object.uid);
    }
    for (const [name, { object }] of before) {
      if (there.has(object.uid)) continue;
      if (watched.get(name)?.object === object) watched.delete(name);
      goes(last?.uid === object.uid ? newer(last, object) : object, false);
    }
  };

  const get = (name: string): T | undefined => {
    const shown = watched.get(name)?.object;
    const own = noted.get(name)?.object;
    const found = shown === undefined || own === undefined ? (shown ?? own) : newer(shown, own);
    return found === undefined || isGone(found) ? undefined : found;
  };

  list.onChange(({ type, object }) => {
    const told = parse(object);
    sync(type === "DELETED" ? told : undefined);
    options.onChange(told.name);
  });

  return {
    all: () => {
      sync();
      const names = new Set([...watched.keys(), ...noted.keys()]);
      return [...names].map(get).filter((object) => object !== undefined);
    },
    get: (name) => {
      sync();
      return get(name);
    },
    note: (object) => {
      sync();
      const known = get(object.name);
      if (isGone(object) || (known !== undefined && newer(known, object) === known)) return;
      noted.set(object.name, { object, at: steady() });
      options.onChange(object.name);
    },
    noteGone: (object) => {
      sync();
      goes(object, true);
      options.onChange(object.name);
    },
    noteAbsent: (object) => {
      sync();
      goes(object, false);
      options.onChange(object.name);
    },
    unconfirmed: (ms) =>
      [...noted.values()].filter(({ at }) => steady() - at >= ms).map(({ object }) => object),
  };
}

/**
 * The later one. Versions are numbers that grow over a whole cluster:
 * https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions. Of two that cannot be compared
 * the first is taken.
 */
function newer<T extends Versioned>(a: T, b: T): T {
  const [first, second] = [numberOf(a), numberOf(b)];
  if (first === undefined || second === undefined) return a;
  return second > first ? b : a;
}

function numberOf({ resourceVersion }: Versioned): bigint | undefined {
  return /^[0-9]+$/.test(resourceVersion) ? BigInt(resourceVersion) : undefined;
}
