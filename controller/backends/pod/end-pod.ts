import type { FailureReason } from "../../assignment/failure-reasons.ts";
import { BackendError } from "../backend.ts";
import type { ApiCollection } from "../../kubernetes/api-collection.ts";
import type { JsonObject } from "../../kubernetes/json.ts";
import { ourPod } from "./our-pod.ts";
import type { PodDocument } from "./pod-document.ts";
import { killedCauseAnnotation, killedForAnnotation } from "./pod-end.ts";
import type { PodView } from "./pod-view.ts";

export type EndPodOptions = {
  readonly view: PodView;
  readonly collection: ApiCollection;
  readonly owner: string;
};

/** Why we end a Pod, and the name of that where it has one. */
export type EndReason = { readonly reason: string; readonly cause?: FailureReason };

/** The kubelet, too, writes into the Pod. */
const mostTries = 5;
/** A Pod that was told to end has its own grace for it, 30 s unless an operator says otherwise. */
const endMs = 90_000;

/**
 * Ends what runs in a Pod and leaves its object: its deadline is made a second from its start, at which the kubelet
 * ends it as it ends any. The reason is written in the same call, and only into the version that was seen to live, so
 * that no end that comes first is taken for ours. A Pod that no node has has no kubelet either: it is deleted, and
 * remembered. Resolves when nothing runs any more; a Pod that is gone or has ended is no error.
 */
export async function endPod(
  name: string,
  why: EndReason,
  { view, collection, owner }: EndPodOptions,
  signal: AbortSignal,
): Promise<void> {
  let pod = await ourPod(name, { view, owner }, signal);
  for (let tries = 1; isLive(pod) && !isTold(pod); tries++) {
    const patched = await collection.patch(name, orderToEnd(pod, why), signal);
    if (patched.kind === "done") pod = view.note(patched.object);
    else if (tries < mostTries) pod = await ourFetched(name, { view, owner }, signal);
    else throw new BackendError("retryable", `ending Pod ${name}: it changes all the time`);
  }
  if (!isLive(pod)) return;
  const { uid, nodeName } = pod;
  if (nodeName === undefined) await collection.remove(name, { uid }, signal);
  const isOver = () => {
    const now = view.get(name);
    if (now !== undefined && now.uid !== uid) return true;
    const state = now === undefined ? view.goneState(name) : view.stateOf(now);
    return state === undefined || state.phase === "ended" ? true : undefined;
  };
  if ((await view.until(name, isOver, endMs, signal)) === undefined)
    throw new BackendError("retryable", `Pod ${name} was told to end, and still runs`);

  function isLive(found: PodDocument | undefined): found is PodDocument {
    return found !== undefined && view.stateOf(found).phase !== "ended";
  }
}

async function ourFetched(
  name: string,
  { view, owner }: Pick<EndPodOptions, "view" | "owner">,
  signal: AbortSignal,
): Promise<PodDocument | undefined> {
  await view.fetch(name, signal);
  return ourPod(name, { view, owner }, signal);
}

function isTold({ annotations }: PodDocument): boolean {
  return annotations[killedForAnnotation] !== undefined;
}

function orderToEnd({ uid, resourceVersion }: PodDocument, { reason, cause }: EndReason): JsonObject {
  const annotations = {
    [killedForAnnotation]: reason,
    ...(cause === undefined ? {} : { [killedCauseAnnotation]: cause }),
  };
  return { metadata: { uid, resourceVersion, annotations }, spec: { activeDeadlineSeconds: 1 } };
}
