import {
  executorLabels,
  executorName,
  type ExecutorMetadata,
  type Texts,
} from "../assignment/executor-metadata.ts";

/** How executors' registration entries are made: as resources that spire-controller-manager turns into entries. */
export type StaticEntrySettings = {
  /** Which spire-controller-manager is to take them: one of another class ignores them, and says nothing. */
  readonly className: string;
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

/** By whom, and by what, an executor is known. */
export type EntryTarget = {
  /** The SPIFFE ID of the agent that sees it. */
  readonly parentId: string;
  readonly selectors: readonly string[];
  readonly annotations?: Texts;
};

/**
 * The entry of one attempt: whoever has all of the selectors in the eyes of exactly this agent gets the job's identity.
 * It is named as its executor is; having no namespace it is owned by nothing, so we remove it.
 */
export function staticEntry(
  metadata: ExecutorMetadata,
  { parentId, selectors, annotations = {} }: EntryTarget,
  { className, svidTtlSeconds }: StaticEntrySettings,
): StaticEntry {
  return {
    apiVersion: "spire.spiffe.io/v1alpha1",
    kind: "ClusterStaticEntry",
    metadata: {
      name: executorName(metadata.assignment, metadata.attempt),
      labels: {
        ...executorLabels({ ...metadata, terminal: false }),
        // By which a newer controller-manager may choose what it looks at.
        "spire.spiffe.io/class-name": className,
      },
      annotations,
    },
    spec: {
      spiffeID: metadata.assignment.spiffeId,
      parentID: parentId,
      selectors,
      x509SVIDTTL: goDuration(svidTtlSeconds),
      className,
    },
  };
}

function goDuration(seconds: number): string {
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  const rest = `${seconds % 60}s`;
  return hours > 0 ? `${hours}h${minutes}m${rest}` : minutes > 0 ? `${minutes}m${rest}` : rest;
}
