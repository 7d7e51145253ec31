import { lead, type Leadership, type LeadOptions } from "./lifecycle/lead.ts";
import type { LeasePort } from "./lifecycle/lease-keeper.ts";
import type { LeaderKey } from "./record/leader-key.ts";

export type TakeTurnsOptions = Omit<LeadOptions, "port" | "superseded"> & {
  /** Undefined where there is no Kubernetes: there the lock of the state folder has been waited for. */
  readonly lease: LeasePort | undefined;
  readonly leaderKey: Pick<LeaderKey, "superseded">;
};

/**
 * Has the work done when it is this process's turn: once the Lease is its own, and for as long as that lasts; at once if
 * there is none. Rejects as `lead` does.
 */
export async function takeTurns(
  { lease, leaderKey, ...rest }: TakeTurnsOptions,
  work: (leadership: Leadership) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  if (lease === undefined) return work(uncontested());
  const superseded = (abort: AbortSignal) => leaderKey.superseded(abort);
  await lead({ ...rest, port: lease, superseded }, work, signal);
}

function uncontested(): Leadership {
  const never = new AbortController().signal;
  return { leading: never, serving: never, holds: () => true };
}
