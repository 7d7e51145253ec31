import type { Times } from "../assignment/times.ts";
import type { Executor } from "../backends/backend.ts";
import type { Clock } from "../platform/clock.ts";

/** What is known of an assignment's last executor beyond its record; a restart only makes it wait longer. */
type Entry = {
  readonly name: string;
  /** The backend will never make it, for this reason. */
  readonly refused?: string;
  /** When it was first seen to run. */
  readonly runningSince?: number;
};

export type AttemptHistory = {
  /** An executor was there: one that is missing later is lost, and not merely late. */
  seen(id: string, executor: Executor): void;
  /** The backend will never make this executor. */
  refused(id: string, name: string, reason: string): void;
  /**
   * Why an executor is not to be waited for any longer, given what the backend lists now; undefined if it lives
   * and has time, or if it may only be that its create failed.
   */
  lost(id: string, name: string, listed: Executor | undefined): string | undefined;
  /** Drops what is remembered of other assignments than those that are known. */
  keep(known: (id: string) => boolean): void;
};

export function createAttemptHistory(
  { startMs, pendingMs }: Pick<Times, "startMs" | "pendingMs">,
  clock: Clock,
): AttemptHistory {
  const entries = new Map<string, Entry>();

  const late = ({ state, createdAt }: Executor, { runningSince }: Entry): string | undefined => {
    if (state.phase === "starting")
      return clock.now() - createdAt >= pendingMs ? "it did not start to run" : undefined;
    const overdue = runningSince !== undefined && clock.now() - runningSince >= startMs;
    return overdue ? "it did not ask for its job in time" : undefined;
  };
  const see = (id: string, { name, state }: Executor): Entry => {
    const before = entries.get(id);
    const since = before?.name === name ? before.runningSince : undefined;
    const running = state.phase === "running" ? { runningSince: since ?? clock.now() } : {};
    const entry: Entry = { name, ...running };
    entries.set(id, entry);
    return entry;
  };

  return {
    seen: (id, executor) => {
      see(id, executor);
    },
    refused: (id, name, reason) => {
      entries.set(id, { name, refused: reason });
    },
    lost: (id, name, listed) => {
      if (listed?.state.phase === "ended") return listed.state.reason;
      if (listed !== undefined) return late(listed, see(id, listed));
      const entry = entries.get(id);
      return entry?.name === name ? (entry.refused ?? "it is gone") : undefined;
    },
    keep: (known) => {
      for (const id of entries.keys()) if (!known(id)) entries.delete(id);
    },
  };
}
