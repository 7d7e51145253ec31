import type { Clock } from "../platform/clock.ts";

/** Whether Gitea still knows the runner that all tasks belong to in its eyes. */
export type Registration = {
  /** To be called with each of Gitea's answers, and with what it says no with. */
  answered(fault: string | undefined): void;
  /** Since when all that Gitea said was that it does not know it; undefined while it does, or says nothing at all. */
  lostSince(): number | undefined;
};

/** It is asked at least once a minute; what it said before a longer silence may not be so any more. */
const longestSilenceMs = 3 * 60_000;

export function createRegistration(clock: Pick<Clock, "now">): Registration {
  let lost: { readonly since: number; readonly toldAt: number } | undefined;
  const current = () => {
    if (lost === undefined) return undefined;
    const silentMs = clock.now() - lost.toldAt;
    return silentMs >= 0 && silentMs < longestSilenceMs ? lost : undefined;
  };
  return {
    answered: (fault) => {
      const now = clock.now();
      if (fault === "unregistered") lost = { since: current()?.since ?? now, toldAt: now };
      // Other faults may come before Gitea has looked who asks.
      else if (fault === undefined) lost = undefined;
    },
    lostSince: () => current()?.since,
  };
}
