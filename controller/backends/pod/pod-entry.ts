import { parseSpiffeId } from "../../identity/spiffe-id.ts";
import type { EntryTarget, StaticEntrySettings } from "../../static-entries/static-entry.ts";
import { BackendError } from "../backend.ts";
import { executorContainer } from "./pod-spec.ts";

/** How Pods' registration entries are made. */
export type EntrySettings = StaticEntrySettings & {
  /** The cluster's name towards SPIRE, for the template. */
  readonly cluster: string;
  /** The SPIFFE ID of the agent on an executor's node; `{cluster}` and `{nodeUid}` stand for these. */
  readonly agentId: string;
  /** The user that the entry is for. */
  readonly uid: number;
};

/** The two UIDs that the API server gave: they are new for whatever is made anew under an old name. */
export type PodPlace = { readonly podUid: string; readonly nodeUid: string; readonly namespace: string };

/** Where its Pod is: an entry has no namespace, and the one that is configured may be another by now. */
export const podNamespaceAnnotation = "ci.ddupan.top/pod-namespace";

/**
 * Whoever runs as that user in the executor's container of exactly this Pod, as the agent of exactly its node sees it.
 * Throws a retryable BackendError for a UID that is none.
 */
export function podEntryTarget(
  { podUid, nodeUid, namespace }: PodPlace,
  { agentId, cluster, uid }: Omit<EntrySettings, keyof StaticEntrySettings>,
): EntryTarget {
  for (const given of [podUid, nodeUid])
    if (!/^[A-Za-z0-9-]+$/.test(given))
      throw new BackendError("retryable", `${JSON.stringify(given)} is no UID`, { reason: "identity" });
  return {
    parentId: parentId(agentId, { cluster, nodeUid }),
    selectors: [`k8s:pod-uid:${podUid}`, `k8s:container-name:${executorContainer}`, `unix:uid:${uid}`],
    annotations: { [podNamespaceAnnotation]: namespace },
  };
}

/** Fills a template of an agent's SPIFFE ID. Throws SpiffeIdError if that gives none, as for an unknown `{name}`. */
export function parentId(
  template: string,
  { cluster, nodeUid }: { readonly cluster: string; readonly nodeUid: string },
): string {
  return parseSpiffeId(
    template.replaceAll("{cluster}", () => cluster).replaceAll("{nodeUid}", () => nodeUid),
  );
}
