import { type Document, timestamp } from "./document.ts";
import { otherUid, stale } from "./refused.ts";
import type { Resource } from "./resources.ts";
import type { Store } from "./store.ts";

export type DeleteOptions = {
  readonly gracePeriodSeconds?: number;
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
};

/** Throws Refused if a precondition does not hold. */
export function checkPreconditions(
  resource: Resource,
  { metadata }: Document,
  { uid, resourceVersion }: NonNullable<DeleteOptions["preconditions"]>,
): void {
  if (uid !== undefined && uid !== metadata.uid)
    throw otherUid(resource, metadata.name, uid, metadata.uid ?? "");
  if (resourceVersion !== undefined && resourceVersion !== metadata.resourceVersion)
    throw stale(resource, metadata.name);
}

/**
 * Begins the end of an object: it is gone at once unless it is a Pod that a node has and that still runs, or something
 * holds it by a finalizer. Returns its last state, and whether it is gone.
 */
export function deleteObject(
  store: Store,
  resource: Resource,
  document: Document,
  options: DeleteOptions,
  now: number,
): { readonly document: Document; readonly gone: boolean } {
  const { metadata } = document;
  const held = (metadata.finalizers ?? []).length > 0;
  if (resource.kind !== "Pod" && !held) return { document: store.remove(resource, document), gone: true };
  const grace = graceSeconds(resource, document, options);
  // A later call may shorten the time, never prolong it.
  const before = metadata.deletionTimestamp === undefined ? Infinity : metadata.deletionGracePeriodSeconds;
  if (grace >= (before ?? 0) && (grace > 0 || held)) return { document, gone: false };
  const ending = { deletionTimestamp: timestamp(now + grace * 1000), deletionGracePeriodSeconds: grace };
  // Written down first in any case: whoever watches a Pod hears of it as changed, and then of its end.
  const written = store.put(resource, { ...document, metadata: { ...metadata, ...ending } });
  if (grace > 0 || held) return { document: written, gone: false };
  return { document: store.remove(resource, written), gone: true };
}

/** Whether a write has taken away the last thing that kept an object that is to go. */
export function isOver({ metadata }: Document): boolean {
  return (
    metadata.deletionTimestamp !== undefined &&
    (metadata.deletionGracePeriodSeconds ?? 0) === 0 &&
    (metadata.finalizers ?? []).length === 0
  );
}

function graceSeconds(
  { kind }: Resource,
  { spec = {}, status = {} }: Document,
  options: DeleteOptions,
): number {
  if (kind !== "Pod") return 0;
  const ended = status["phase"] === "Failed" || status["phase"] === "Succeeded";
  if (ended || (spec["nodeName"] ?? "") === "") return 0;
  return options.gracePeriodSeconds ?? Number(spec["terminationGracePeriodSeconds"] ?? 30);
}
