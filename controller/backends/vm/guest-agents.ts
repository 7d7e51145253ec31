import type { SpiffeId } from "../../identity/spiffe-id.ts";
import type { Clock } from "../../platform/clock.ts";
import { executorOfAgent } from "./agent-token.ts";

export type GuestAgent = {
  readonly id: SpiffeId;
  /** When its present SVID expires, milliseconds since the epoch. */
  readonly expiresAt: number;
};

/** The agents in VMs, as SPIRE's server knows them. All calls have a deadline of their own, and are made once. */
export type GuestAgents = {
  createJoinToken(token: string, ttlSeconds: number, signal: AbortSignal): Promise<void>;
  /** Whoever has joined by a token, ours or not. */
  listJoined(signal: AbortSignal): Promise<readonly GuestAgent[]>;
  /** False if there is none of that ID. */
  delete(id: SpiffeId, signal: AbortSignal): Promise<boolean>;
};

const everyMs = 1_000;

/** The agents of one executor, the one that joined last first. There are several if several VMs were made for it. */
export async function agentsOf(
  name: string,
  { agents, owner }: { readonly agents: Pick<GuestAgents, "listJoined">; readonly owner: string },
  signal: AbortSignal,
): Promise<readonly GuestAgent[]> {
  const joined = await agents.listJoined(signal);
  return joined
    .filter(({ id }) => executorOfAgent(id, owner) === name)
    .toSorted((a, b) => b.expiresAt - a.expiresAt || (a.id < b.id ? -1 : 1));
}

/** The same, waiting for one for so long. */
export async function awaitAgentsOf(
  name: string,
  waitMs: number,
  options: Parameters<typeof agentsOf>[1] & { readonly clock: Clock },
  signal: AbortSignal,
): Promise<readonly GuestAgent[]> {
  const { clock } = options;
  const until = clock.now() + waitMs;
  for (;;) {
    const found = await agentsOf(name, options, signal);
    if (found.length > 0 || clock.now() >= until) return found;
    await clock.sleep(Math.min(everyMs, until - clock.now()), signal);
  }
}
