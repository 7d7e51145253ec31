import type { Clock } from "../../platform/clock.ts";
import type { EntryKeeper } from "../../static-entries/entry-keeper.ts";
import { BackendError, type Binding, type Executor } from "../backend.ts";
import type { NodeUids } from "./node-uids.ts";
import { ourPod } from "./our-pod.ts";
import { podEntryTarget } from "./pod-entry.ts";
import { existingExecutor, executorOfPod } from "./pod-executor.ts";
import type { PodBackendOptions } from "./pod-options.ts";
import type { PodView } from "./pod-view.ts";

export type BindIdentityOptions = Pick<PodBackendOptions, "owner" | "trustDomain" | "entries"> & {
  readonly pods: Pick<PodBackendOptions["pods"], "namespace">;
  readonly view: PodView;
  readonly nodes: Pick<NodeUids, "of">;
  readonly keeper: Pick<EntryKeeper, "get" | "add">;
  readonly clock: Pick<Clock, "now">;
};

const nodeWaitMs = 10_000;
/** A node is rarely made anew under its name; one whose executor gets no identity may have been. */
const nodeAgeMs = 10 * 60_000;
const nodeAgeAgainMs = 60_000;

/** Waits for the Pod's node, by whose agent the identity is given, and makes the entry. Rejects as EntryKeeper does. */
export async function bindIdentity(
  { name, metadata }: Executor,
  options: BindIdentityOptions,
  signal: AbortSignal,
): Promise<Binding> {
  const { view, nodes, keeper, entries, trustDomain, clock } = options;
  const { namespace } = options.pods;
  const gone = () => new BackendError("retryable", `${name} is gone`);
  const placed = () => {
    const pod = view.get(name);
    if (pod === undefined) throw gone();
    existingExecutor(executorOfPod(pod, view.stateOf(pod), { trustDomain, seenAt: clock.now() }), metadata);
    return pod.nodeName === undefined ? undefined : { podUid: pod.uid, node: pod.nodeName };
  };
  if ((await ourPod(name, options, signal)) === undefined) throw gone();
  const place = await view.until(name, placed, nodeWaitMs, signal);
  if (place === undefined) return { bound: false };
  const { podUid, node } = place;
  const ageMs = keeper.get(name) === undefined ? nodeAgeMs : nodeAgeAgainMs;
  const nodeUid = entries.agentId.includes("{nodeUid}") ? await nodes.of(node, ageMs, signal) : "any";
  await keeper.add(metadata, podEntryTarget({ podUid, nodeUid, namespace }, entries), signal);
  return { bound: true };
}
