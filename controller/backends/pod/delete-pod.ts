import { BackendError } from "../backend.ts";
import type { ApiCollection } from "../../kubernetes/api-collection.ts";
import type { EntryKeeper } from "../../static-entries/entry-keeper.ts";
import type { NodeUids } from "./node-uids.ts";
import { ourPod } from "./our-pod.ts";
import type { PodDocument } from "./pod-document.ts";
import type { PodView } from "./pod-view.ts";

export type DeletePodOptions = {
  readonly view: PodView;
  readonly collection: ApiCollection;
  readonly nodes: Pick<NodeUids, "isThere">;
  readonly keeper: Pick<EntryKeeper, "remove">;
  readonly owner: string;
};

/** Nobody waits for the result of what is deleted while it runs; a bootstrap that is told to stop takes less. */
const graceSeconds = 10;
/** The kubelet's own work, and the removal of volumes, come on top. */
const goneMs = 60_000;

/**
 * Removes an executor with its entry, the entry first. An entry that cannot be removed does not keep the Pod: without
 * it the entry is of no use to anybody, and is told of afterwards.
 */
export async function deleteExecutor(
  name: string,
  options: DeletePodOptions,
  signal: AbortSignal,
): Promise<void> {
  const pod = await ourPod(name, options, signal);
  const [entry] = await Promise.allSettled([options.keeper.remove(name, signal)]);
  if (pod === undefined) options.view.discard(name);
  else await deletePod(pod, options, signal);
  if (entry?.status === "rejected") throw entry.reason;
}

/**
 * Deletes exactly this Pod, with a short grace, and resolves when it is gone. Its object is taken away without waiting
 * for the kubelet only if it is being deleted already and its node is no more: then nobody else will do it soon, and
 * nothing can run on.
 */
async function deletePod(
  pod: PodDocument,
  { view, collection, nodes }: DeletePodOptions,
  signal: AbortSignal,
): Promise<void> {
  const { name, uid, nodeName, deleting } = pod;
  view.discard(name);
  const orphaned = deleting && nodeName !== undefined && !(await nodes.isThere(nodeName, signal));
  const grace = orphaned ? 0 : graceSeconds;
  if (!(await collection.remove(name, { uid, graceSeconds: grace }, signal))) await view.fetch(name, signal);
  const isGone = () => (view.get(name)?.uid === uid ? undefined : true);
  if ((await view.until(name, isGone, goneMs, signal)) === undefined)
    throw new BackendError("retryable", `Pod ${name} was deleted, and is still there`);
}
