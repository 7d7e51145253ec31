import type { Clock, SteadyClock } from "../../platform/clock.ts";
import { describeError } from "../../platform/errors.ts";
import type { Logger } from "../../platform/logger.ts";
import { isAbortOf } from "../../platform/signal.ts";
import type { EntryKeeper, KnownEntry } from "./entry-keeper.ts";
import type { PodView } from "./pod-view.ts";
import { podNamespaceAnnotation } from "./static-entry.ts";

export type SweepOptions = {
  readonly entries: Pick<EntryKeeper, "all" | "removeAsSeen">;
  readonly pods: Pick<PodView, "get" | "fetch">;
  /** That of the Pods which are looked at. */
  readonly namespace: string;
  readonly clock: Clock;
  readonly steady: SteadyClock;
  readonly log: Logger;
};

const everyMs = 30_000;
/** For so long an entry has to lack its Pod, by a clock that nobody sets. */
const orphanMs = 60_000;

/**
 * Removes entries of ours whose Pod is gone, until the signal is aborted: they have no owner in the API, and a
 * controller may have died between the one and the other. Whether a Pod is gone the API is asked, not the watch. Of a
 * Pod in the namespace that was configured before nobody knows; its job may run, so that its entry is left, loudly.
 */
export async function sweepEntries(options: SweepOptions, signal: AbortSignal): Promise<void> {
  const { clock } = options;
  const orphans = new Map<string, number>();
  const told = new Set<string>();
  try {
    for (;;) {
      tellElsewhere(options, told);
      await sweepOnce(options, orphans, signal);
      await clock.sleep(everyMs, signal);
    }
  } catch (error) {
    if (!isAbortOf(signal, error)) throw error;
  }
}

/** `orphans`: since when an entry, by its UID, has been without a Pod. */
async function sweepOnce(
  { entries, pods, namespace, steady, log }: SweepOptions,
  orphans: Map<string, number>,
  signal: AbortSignal,
): Promise<void> {
  const now = steady();
  const lonely = entries
    .all()
    .filter((entry) => namespaceOf(entry, namespace) === namespace && pods.get(entry.name) === undefined);
  const uids = new Set(lonely.map(({ uid }) => uid));
  for (const uid of orphans.keys()) if (!uids.has(uid)) orphans.delete(uid);
  for (const entry of lonely) {
    const since = orphans.get(entry.uid) ?? now;
    orphans.set(entry.uid, since);
    if (now - since < orphanMs) continue;
    try {
      if ((await pods.fetch(entry.name, signal)) !== undefined) continue;
      if (await entries.removeAsSeen(entry, signal))
        log.warn({ executor: entry.name }, "registration without executor removed");
    } catch (error) {
      signal.throwIfAborted();
      log.warn({ executor: entry.name, error: describeError(error) }, "sweeping registrations failed");
    }
  }
}

/** `told`: of which entries, by their UIDs, it was told already. */
function tellElsewhere({ entries, namespace, log }: SweepOptions, told: Set<string>): void {
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
