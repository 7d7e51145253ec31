import {
  executorLabels,
  executorName,
  type ExecutorMetadata,
  type Texts,
} from "../../assignment/executor-metadata.ts";
import { parseSpiffeId } from "../../identity/spiffe-id.ts";
import { BackendError } from "../backend.ts";
import { executorContainer } from "./pod-spec.ts";

/** How executors' registration entries are made: as resources that spire-controller-manager turns into entries. */
export type EntrySettings = {
  /** The cluster's name towards SPIRE, for the template. */
  readonly cluster: string;
  /** Which spire-controller-manager is to take them: one of another class ignores them, and says nothing. */
  readonly className: string;
  /** The SPIFFE ID of the agent on an executor's node; `{cluster}` and `{nodeUid}` stand for these. */
  readonly agentId: string;
  /** The user that the entry is for. */
  readonly uid: number;
  readonly svidTtlSeconds: number;
};

/** A `ClusterStaticEntry`, https://github.com/spiffe/spire-controller-manager/blob/main/docs/clusterstaticentry-crd.md */
export type StaticEntry = {
  readonly apiVersion: "spire.spiffe.io/v1alpha1";
  readonly kind: "ClusterStaticEntry";
  readonly metadata: { readonly name: string; readonly labels: Texts; readonly annotations: Texts };
  readonly spec: {
    readonly spiffeID: string;
    readonly parentID: string;
    readonly selectors: readonly string[];
    /** As Go writes a duration: whoever writes the resource again in Go leaves it as it is. */
    readonly x509SVIDTTL: string;
    readonly className: string;
  };
};

/** The two UIDs that the API server gave: they are new for whatever is made anew under an old name. */
export type EntryTarget = { readonly podUid: string; readonly nodeUid: string };

/** Where its Pod is: an entry has no namespace, and the one that is configured may be another by now. */
export const podNamespaceAnnotation = "ci.ddupan.top/pod-namespace";

/**
 * The entry of one attempt: whoever runs as that user in the executor's container of exactly this Pod, as the agent
 * of exactly its node sees it, gets the job's identity. It is named as its Pod is; having no namespace it cannot be
 * owned by it, so we remove it. Throws a retryable BackendError for a UID that is none.
 */
export function staticEntry(
  metadata: ExecutorMetadata,
  { podUid, nodeUid, namespace }: EntryTarget & { readonly namespace: string },
  settings: EntrySettings,
): StaticEntry {
  for (const uid of [podUid, nodeUid])
    if (!/^[A-Za-z0-9-]+$/.test(uid))
      throw new BackendError("retryable", `${JSON.stringify(uid)} is no UID`, { reason: "identity" });
  return {
    apiVersion: "spire.spiffe.io/v1alpha1",
    kind: "ClusterStaticEntry",
    metadata: {
      name: executorName(metadata.assignment, metadata.attempt),
      labels: {
        ...executorLabels({ ...metadata, terminal: false }),
        // By which a newer controller-manager may choose what it looks at.
        "spire.spiffe.io/class-name": settings.className,
      },
      annotations: { [podNamespaceAnnotation]: namespace },
    },
    spec: {
      spiffeID: metadata.assignment.spiffeId,
      parentID: parentId(settings.agentId, { cluster: settings.cluster, nodeUid }),
      selectors: [
        `k8s:pod-uid:${podUid}`,
        `k8s:container-name:${executorContainer}`,
        `unix:uid:${settings.uid}`,
      ],
      x509SVIDTTL: goDuration(settings.svidTtlSeconds),
      className: settings.className,
    },
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

function goDuration(seconds: number): string {
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  const rest = `${seconds % 60}s`;
  return hours > 0 ? `${hours}h${minutes}m${rest}` : minutes > 0 ? `${minutes}m${rest}` : rest;
}
