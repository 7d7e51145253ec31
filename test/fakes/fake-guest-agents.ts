import type { GuestAgents } from "../../controller/backends/vm/guest-agents.ts";
import { parseSpiffeId, type SpiffeId } from "../../controller/identity/spiffe-id.ts";

/** The agents in VMs that a SPIRE server knows, without a server. */
export type FakeGuestAgents = GuestAgents & {
  /** Seconds to live, by token that nobody has joined with. */
  readonly tokens: Map<string, number>;
  readonly joined: Map<SpiffeId, number>;
  readonly lists: () => number;
  /** An agent joins with a token; its SVID expires after that of any before it. */
  join(token: string): SpiffeId;
  /** The next call fails so. */
  failNext(error: Error): void;
};

export function createFakeGuestAgents(trustDomain: string): FakeGuestAgents {
  const tokens = new Map<string, number>();
  const joined = new Map<SpiffeId, number>();
  const failures: Error[] = [];
  let lists = 0;
  let expiresAt = 1_000_000;
  const begin = () => {
    const failure = failures.shift();
    if (failure !== undefined) throw failure;
  };
  return {
    tokens,
    joined,
    lists: () => lists,
    join: (token) => {
      const id = parseSpiffeId(`spiffe://${trustDomain}/spire/agent/join_token/${token}`);
      tokens.delete(token);
      joined.set(id, ++expiresAt);
      return id;
    },
    failNext: (error) => void failures.push(error),
    createJoinToken: async (token, ttlSeconds) => {
      begin();
      tokens.set(token, ttlSeconds);
    },
    listJoined: async () => {
      lists++;
      begin();
      return [...joined].map(([id, until]) => ({ id, expiresAt: until }));
    },
    delete: async (id) => {
      begin();
      return joined.delete(id);
    },
  };
}
