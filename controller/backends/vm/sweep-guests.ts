import type { SpiffeId } from "../../identity/spiffe-id.ts";
import type { Clock, SteadyClock } from "../../platform/clock.ts";
import type { Logger } from "../../platform/logger.ts";
import type { Task } from "../../platform/task-group.ts";
import type { EntryKeeper } from "../../static-entries/entry-keeper.ts";
import { sweepOrphans } from "../../static-entries/sweep-orphans.ts";
import { executorOfAgent } from "./agent-token.ts";
import type { GuestAgents } from "./guest-agents.ts";

export type SweepGuestsOptions = {
  readonly owner: string;
  readonly entries: Pick<EntryKeeper, "all" | "removeAsSeen">;
  readonly agents: Pick<GuestAgents, "listJoined" | "delete">;
  /** As in VmIdentity. */
  readonly isThere: (name: string, signal: AbortSignal) => Promise<boolean>;
  readonly clock: Clock;
  readonly steady: SteadyClock;
  readonly log: Logger;
};

/** Entries and agents of ours whose VM is gone. */
export function sweepGuests({ owner, entries, agents, ...common }: SweepGuestsOptions): readonly Task[] {
  const ourAgents = async (signal: AbortSignal) =>
    (await agents.listJoined(signal)).flatMap(({ id }) => oursOnly(id, owner));
  return [
    {
      name: "sweep of entries",
      run: (signal) =>
        sweepOrphans(
          {
            found: () => entries.all(),
            keyOf: ({ uid }) => uid,
            executorOf: ({ name }) => name,
            remove: (entry, abort) => entries.removeAsSeen(entry, abort),
            what: "registration",
            ...common,
          },
          signal,
        ),
    },
    {
      name: "sweep of agents",
      run: (signal) =>
        sweepOrphans(
          {
            found: ourAgents,
            keyOf: ({ id }) => id,
            executorOf: ({ executor }) => executor,
            remove: ({ id }, abort) => agents.delete(id, abort),
            what: "agent",
            ...common,
          },
          signal,
        ),
    },
  ];
}

function oursOnly(id: SpiffeId, owner: string) {
  const executor = executorOfAgent(id, owner);
  return executor === undefined ? [] : [{ id, executor }];
}
