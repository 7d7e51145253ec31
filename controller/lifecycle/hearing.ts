import type { Clock } from "../platform/clock.ts";

/** When the facade last heard of each assignment's executor; in memory only. */
export type Hearing = {
  /** Its executor has spoken: a call, a beat, a ping. */
  heard(id: string): void;
  /** Milliseconds since the epoch. Never before the time from which on we could have heard it. */
  heardAt(id: string): number;
  /** The assignment is over. */
  forget(id: string): void;
};

export type HearingOptions = {
  readonly clock: Pick<Clock, "now">;
  /** Whether executors can reach the facade at all; while they cannot, nobody's silence counts. */
  readonly canHear?: () => boolean;
};

/** Who leads asks after its executors far more often than this. */
const deafMs = 60_000;

/**
 * To be made when this controller begins to lead: silence counts from then on at the earliest. It does not count
 * either while nobody asked after anyone for a minute, or over a step of the clock: the process stood still, or had
 * nobody to listen to, and what came meanwhile is not heard yet.
 */
export function createHearing({ clock, canHear = () => true }: HearingOptions): Hearing {
  const last = new Map<string, number>();
  let since = clock.now();
  let askedAt = since;

  const listen = (): void => {
    const now = clock.now();
    if (!canHear() || now < askedAt || now - askedAt > deafMs) since = now;
    // What lies ahead was heard before the clock was set back.
    if (now < askedAt) for (const [id, at] of last) last.set(id, Math.min(at, now));
    askedAt = now;
  };

  return {
    heard: (id) => void last.set(id, clock.now()),
    heardAt: (id) => {
      listen();
      return Math.max(since, last.get(id) ?? since);
    },
    forget: (id) => void last.delete(id),
  };
}
