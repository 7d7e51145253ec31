import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { Clock } from "../../../controller/platform/clock.ts";
import { type Document, timestamp } from "./document.ts";
import { apiVersionOf, type Resource } from "./resources.ts";

/** One write, as a watch hears of it. */
export type Change = {
  readonly version: number;
  readonly resource: Resource;
  readonly before: Document | undefined;
  /** Undefined: removed. */
  readonly after: Document | undefined;
};

/** All objects, and all that ever happened to them since `oldest`. */
export type Store = {
  readonly version: number;
  /** Changes up to this one are forgotten. */
  readonly oldest: number;
  all(resource: Resource, namespace?: string): readonly Document[];
  get(resource: Resource, namespace: string | undefined, name: string): Document | undefined;
  /** Creates or replaces; a write that changes nothing is none. Returns the object as it is now. */
  put(resource: Resource, document: Document): Document;
  remove(resource: Resource, document: Document): Document;
  since(version: number): readonly Change[];
  compact(): void;
  /** Something happens that is no concern of anybody here. */
  advance(): void;
  onChange(listener: (change: Change) => void): () => void;
};

export function createStore(clock: Pick<Clock, "now">): Store {
  const objects = new Map<string, Document>();
  const listeners = new Set<(change: Change) => void>();
  let changes: Change[] = [];
  // Any number will do, as with etcd.
  let version = 1_000;
  let oldest = version;

  const happened = (change: Omit<Change, "version">) => {
    const whole = { version, ...change };
    changes.push(whole);
    for (const listener of listeners) listener(whole);
  };

  const versioned = (document: Document): Document => ({
    ...document,
    metadata: { ...document.metadata, resourceVersion: String(++version) },
  });

  /** What no write changes, and what the server gives a new object. */
  const identityOf = (before: Document | undefined) => {
    const {
      uid = randomUUID(),
      creationTimestamp = timestamp(clock.now()),
      resourceVersion,
    } = before?.metadata ?? {};
    return { uid, creationTimestamp, ...(resourceVersion === undefined ? {} : { resourceVersion }) };
  };

  return {
    get version() {
      return version;
    },
    get oldest() {
      return oldest;
    },
    all: (resource, namespace) =>
      [...objects.entries()]
        .filter(([key]) => key.startsWith(prefixOf(resource, namespace)))
        .toSorted(([a], [b]) => (a < b ? -1 : 1))
        .map(([, document]) => document),
    get: (resource, namespace, name) => objects.get(`${prefixOf(resource, namespace ?? "")}${name}`),
    put: (resource, given) => {
      const key = keyOf(resource, given);
      const before = objects.get(key);
      const document = { ...given, metadata: { ...given.metadata, ...identityOf(before) } };
      if (before !== undefined && isDeepStrictEqual(document, before)) return before;
      const after = versioned({ apiVersion: apiVersionOf(resource), kind: resource.kind, ...document });
      objects.set(key, after);
      happened({ resource, before, after });
      return after;
    },
    remove: (resource, document) => {
      const before = versioned(document);
      objects.delete(keyOf(resource, document));
      happened({ resource, before, after: undefined });
      return before;
    },
    since: (from) => changes.filter((change) => change.version > from),
    compact: () => {
      oldest = version;
      changes = [];
    },
    advance: () => {
      version++;
    },
    onChange: (listener) => {
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
      };
    },
  };
}

function prefixOf({ group, name, namespaced }: Resource, namespace: string | undefined): string {
  const collection = `${group}/${name}/`;
  return namespaced && namespace !== undefined ? `${collection}${namespace}/` : collection;
}

function keyOf(resource: Resource, { metadata }: Document): string {
  return `${prefixOf(resource, metadata.namespace ?? "")}${metadata.name}`;
}
