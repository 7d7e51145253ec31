import type { ClusterApi, KubernetesObject } from "./api.ts";
import { untilTrue } from "./component.ts";
import { hasCondition } from "./conditions.ts";

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
  const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
  for (const crd of crds) await api.ensure(definitions, crd, signal);
  await api.ensure("/apis/storage.k8s.io/v1/csidrivers", csiDriver, signal);
  for (const name of namespaces)
    await api.ensure("/api/v1/namespaces", object("Namespace", { name }), signal);
  for (const { namespace, name } of accounts) {
    const collection = `/api/v1/namespaces/${namespace}/serviceaccounts`;
    await api.ensure(collection, object("ServiceAccount", { namespace, name }), signal);
  }
  const established = async (abort: AbortSignal) => {
    for (const { metadata } of crds) {
      const definition = await api.read(`${definitions}/${metadata.name}`, abort);
      if (!hasCondition(definition, "Established")) return false;
    }
    return true;
  };
  await untilTrue(established, signal);
}

function object(kind: string, metadata: KubernetesObject["metadata"]): KubernetesObject {
  return { apiVersion: "v1", kind, metadata };
}
