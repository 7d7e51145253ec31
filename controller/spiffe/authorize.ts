import type { SpiffeId } from "../identity/spiffe-id.ts";

/**
 * Which peers are let in. IDs are compared as a whole: a prefix would also fit the longer name of somebody else.
 */
export type Authorizer = {
  /** Who is expected, for messages. */
  readonly expected: string;
  allows(id: SpiffeId): boolean;
};

export function exactly(expected: SpiffeId): Authorizer {
  return { expected, allows: (id) => id === expected };
}

export function oneOf(ids: Iterable<SpiffeId>): Authorizer {
  const set = new Set(ids);
  return { expected: `one of ${[...set].join(", ")}`, allows: (id) => set.has(id) };
}
