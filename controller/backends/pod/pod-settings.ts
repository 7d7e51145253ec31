import type { Texts } from "../../assignment/executor-metadata.ts";
import type { JsonObject } from "../../kubernetes/json.ts";

/** What an operator decides about executors' Pods. */
export type PodSettings = {
  readonly namespace: string;
  readonly serviceAccount: string;
  readonly image: string;
  /** Whom the bootstrap and the job run as; the image's user. */
  readonly uid: number;
  /** As in a container's `resources`. */
  readonly resources?: PodResources;
  /** Names of secrets in the namespace. */
  readonly imagePullSecrets: readonly string[];
  readonly nodeSelector: Texts;
  readonly tolerations: readonly Toleration[];
  readonly runtimeClass?: string;
  /** The cluster's own default unless given. */
  readonly dnsPolicy?: DnsPolicy;
};

/** Amounts as Kubernetes writes them, such as `500m` and `2Gi`. */
export type PodResources = { readonly requests?: Texts; readonly limits?: Texts };

export type Toleration = {
  readonly key?: string;
  readonly operator?: "Exists" | "Equal";
  readonly value?: string;
  readonly effect?: "NoSchedule" | "PreferNoSchedule" | "NoExecute";
  readonly tolerationSeconds?: number;
};

export const dnsPolicies = ["ClusterFirst", "Default"] as const;

export type DnsPolicy = (typeof dnsPolicies)[number];

/** What is merged into each Pod: parsed and checked by `parsePodPatch`. */
export type PodPatch = JsonObject;
