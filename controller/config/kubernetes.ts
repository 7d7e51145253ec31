import type { PodPatch, PodSettings } from "../backends/pod/pod-settings.ts";
import type { EntrySettings } from "../backends/pod/pod-entry.ts";
import type { Variables } from "./variables.ts";

/** Executors as Pods of a Kubernetes cluster. */
export type PodConfig = {
  readonly pods: PodSettings & { readonly patch?: PodPatch };
  readonly entries: EntrySettings;
};

/** Where the Lease is by which the controllers take turns. */
export type LeaseConfig = { readonly namespace: string };

/** Undefined where no Pods are made; all that is needed is known to be there. */
export function podConfig(variables: Variables): PodConfig | undefined {
  const { POD_EXECUTOR_IMAGE: image, SPIRE_AGENT_ID: agentId, POD_PATCH_FILE: patch } = variables;
  if (!variables.COMPONENTS.includes("pod-worker") || variables.POD_BACKEND === "local") return undefined;
  if (image === undefined || agentId === undefined) return undefined;
  const { POD_EXECUTOR_UID: uid, POD_RESOURCES: resources } = variables;
  const { POD_RUNTIME_CLASS: runtimeClass, POD_DNS_POLICY: dnsPolicy } = variables;
  return {
    pods: {
      namespace: variables.POD_NAMESPACE,
      serviceAccount: variables.POD_SERVICE_ACCOUNT,
      image,
      uid,
      imagePullSecrets: variables.POD_IMAGE_PULL_SECRETS,
      nodeSelector: variables.POD_NODE_SELECTOR,
      tolerations: variables.POD_TOLERATIONS ?? [],
      ...(resources === undefined ? {} : { resources }),
      ...(runtimeClass === undefined ? {} : { runtimeClass }),
      ...(dnsPolicy === undefined ? {} : { dnsPolicy }),
      ...(patch === undefined ? {} : { patch }),
    },
    entries: {
      cluster: variables.SPIRE_CLUSTER,
      className: variables.SPIRE_CLASS,
      agentId,
      uid,
      svidTtlSeconds: variables.SPIRE_SVID_TTL_SECONDS,
    },
  };
}

/** Undefined where executors are processes of this machine: there the state folder says who leads. */
export function leaseConfig(variables: Variables, locally: boolean): LeaseConfig | undefined {
  const { CONTROLLER_NAMESPACE: namespace } = variables;
  return locally || namespace === undefined ? undefined : { namespace };
}
