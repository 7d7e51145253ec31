import type { ClusterApi, KubernetesObject } from "./api.ts";
import { establishDefinitions } from "./definitions.ts";

/** Where executors run, and as whom: the controller's defaults. */
export const executorNamespace = "gitea-actions";
export const executorServiceAccount = "gitea-task-executor";
/** Without rights, until a test gives it some. */
export const controllerServiceAccount = "gitea-dynamic-runner";

const namespaces = [executorNamespace, "spire"];
const accounts = [
  // Its controller takes five seconds for this one, and no Pod is taken before.
  { namespace: "default", name: "default" },
  { namespace: executorNamespace, name: "default" },
  { namespace: executorNamespace, name: executorServiceAccount },
  { namespace: executorNamespace, name: controllerServiceAccount },
  { namespace: "spire", name: "spire-agent" },
];

/** The SPIFFE CSI driver's own, https://github.com/spiffe/spiffe-csi/blob/v0.2.7/example/config/spiffe-csi-driver.yaml. */
const csiDriver: KubernetesObject = {
  apiVersion: "storage.k8s.io/v1",
  kind: "CSIDriver",
  metadata: { name: "csi.spiffe.io" },
  spec: {
    attachRequired: false,
    podInfoOnMount: true,
    fsGroupPolicy: "None",
    volumeLifecycleModes: ["Ephemeral"],
  },
};

/** Puts what tests expect of a cluster into it, and waits until SPIRE's resources can be used. */
export async function installObjects(
  api: ClusterApi,
  crds: readonly KubernetesObject[],
  signal: AbortSignal,
): Promise<void> {
  await establishDefinitions(api, crds, signal);
  await api.ensure("/apis/storage.k8s.io/v1/csidrivers", csiDriver, signal);
  for (const name of namespaces)
    await api.ensure("/api/v1/namespaces", object("Namespace", { name }), signal);
  for (const { namespace, name } of accounts) {
    const collection = `/api/v1/namespaces/${namespace}/serviceaccounts`;
    await api.ensure(collection, object("ServiceAccount", { namespace, name }), signal);
  }
}

function object(kind: string, metadata: KubernetesObject["metadata"]): KubernetesObject {
  return { apiVersion: "v1", kind, metadata };
}
