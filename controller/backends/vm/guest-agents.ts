import type { SpiffeId } from "../../identity/spiffe-id.ts";
import type { Clock, SteadyClock } from "../../platform/clock.ts";
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

/** The first of them that is wanted, waiting for one for so long. */
export async function awaitAgentOf(
  name: string,
  wanted: (joined: readonly GuestAgent[]) => GuestAgent | undefined,
  waitMs: number,
  options: Parameters<typeof agentsOf>[1] & { readonly clock: Clock; readonly steady: SteadyClock },
  signal: AbortSignal,
): Promise<GuestAgent | undefined> {
  const { clock, steady } = options;
  const until = steady() + waitMs;
  for (;;) {
    const found = wanted(await agentsOf(name, options, signal));
    const leftMs = until - steady();
    if (found !== undefined || leftMs <= 0) return found;
    await clock.sleep(Math.min(everyMs, leftMs), signal);
  }
}
