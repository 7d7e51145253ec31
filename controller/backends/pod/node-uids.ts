import { z } from "zod";
import type { SteadyClock } from "../../platform/clock.ts";
import { BackendError } from "../backend.ts";
import type { ApiCollection } from "../../kubernetes/api-collection.ts";

/** The UIDs of nodes, by name. */
export type NodeUids = {
  /** As it was at most `maxAgeMs` ago. Rejects with a retryable BackendError if there is no such node. */
  of(node: string, maxAgeMs: number, signal: AbortSignal): Promise<string>;
  /** Whether a node of that name is there, by an uncached read. */
  isThere(node: string, signal: AbortSignal): Promise<boolean>;
};

/** A cluster that makes its nodes anew all the time has as many names. */
const mostNodes = 1_000;

const node = z.object({ metadata: z.object({ uid: z.string() }) });

/**
 * Reads nodes one by one and remembers them: a watch would hear of each of their heartbeats. A node that is made anew
 * under its name has another UID.
 */
export function createNodeUids(nodes: Pick<ApiCollection, "get">, steady: SteadyClock): NodeUids {
  const known = new Map<string, { readonly uid: string; readonly at: number }>();
  const read = async (name: string, signal: AbortSignal): Promise<string | undefined> => {
    const at = steady();
    const answer = await nodes.get(name, signal);
    known.delete(name);
    if (answer === undefined) return undefined;
    const { uid } = node.parse(answer).metadata;
    known.set(name, { uid, at });
    const [oldest] = known.keys();
    if (known.size > mostNodes && oldest !== undefined) known.delete(oldest);
    return uid;
  };
  return {
    of: async (name, maxAgeMs, signal) => {
      const found = known.get(name);
      if (found !== undefined && steady() - found.at <= maxAgeMs) return found.uid;
      const uid = await read(name, signal);
      if (uid === undefined)
        throw new BackendError("retryable", `node ${name} is not there`, { reason: "identity" });
      return uid;
    },
    isThere: async (name, signal) => (await read(name, signal)) !== undefined,
  };
}
