import type { Clock, SteadyClock } from "../../platform/clock.ts";
import type { Logger } from "../../platform/logger.ts";
import type { EntryKeeper, KnownEntry } from "../../static-entries/entry-keeper.ts";
import { sweepOrphans } from "../../static-entries/sweep-orphans.ts";
import { podNamespaceAnnotation } from "./pod-entry.ts";
import type { PodView } from "./pod-view.ts";

export type SweepPodEntriesOptions = {
  readonly entries: Pick<EntryKeeper, "all" | "removeAsSeen">;
  readonly pods: Pick<PodView, "get" | "fetch">;
  /** That of the Pods which are looked at. */
  readonly namespace: string;
  readonly clock: Clock;
  readonly steady: SteadyClock;
  readonly log: Logger;
};

/**
 * Removes entries of ours whose Pod is gone, until the signal is aborted. Whether a Pod is gone the API is asked, not
 * the watch. Of a Pod in the namespace that was configured before nobody knows; its job may run, so that its entry is
 * left, loudly.
 */
export async function sweepPodEntries(options: SweepPodEntriesOptions, signal: AbortSignal): Promise<void> {
  const { entries, pods, namespace, ...platform } = options;
  const told = new Set<string>();
  const found = () => {
    tellElsewhere(options, told);
    return entries.all().filter((entry) => namespaceOf(entry, namespace) === namespace);
  };
  await sweepOrphans(
    {
      found,
      keyOf: ({ uid }) => uid,
      executorOf: ({ name }) => name,
      isKnown: (name) => pods.get(name) !== undefined,
      isThere: async (name, abort) => (await pods.fetch(name, abort)) !== undefined,
      remove: (entry, abort) => entries.removeAsSeen(entry, abort),
      what: "registration",
      ...platform,
    },
    signal,
  );
}

/** `told`: of which entries, by their UIDs, it was told already. */
function tellElsewhere({ entries, namespace, log }: SweepPodEntriesOptions, told: Set<string>): void {
  const elsewhere = entries.all().filter((entry) => namespaceOf(entry, namespace) !== namespace);
  const uids = new Set(elsewhere.map(({ uid }) => uid));
  for (const uid of told) if (!uids.has(uid)) told.delete(uid);
  for (const entry of elsewhere) {
    if (told.has(entry.uid)) continue;
    told.add(entry.uid);
    log.error(
      { executor: entry.name, namespace: namespaceOf(entry, namespace) },
      "registration of a pod in another namespace left alone: POD_NAMESPACE was changed while jobs ran",
    );
  }
}

function namespaceOf({ document }: KnownEntry, usual: string): string {
  return document.metadata.annotations[podNamespaceAnnotation] ?? usual;
}
