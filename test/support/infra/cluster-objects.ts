import type { ClusterApi, KubernetesObject } from "../../../scripts/peers/cluster/api.ts";

const admission = "/apis/admissionregistration.k8s.io/v1";
const rbac = "/apis/rbac.authorization.k8s.io/v1";

/** Collections of all that a stack makes, over all namespaces. */
const collections = [
  "/api/v1/namespaces",
  "/api/v1/serviceaccounts",
  "/api/v1/resourcequotas",
  "/api/v1/configmaps",
  "/api/v1/secrets",
  "/api/v1/services",
  "/apis/apps/v1/deployments",
  "/apis/policy/v1/poddisruptionbudgets",
  "/apis/networking.k8s.io/v1/networkpolicies",
  `${rbac}/roles`,
  `${rbac}/rolebindings`,
  `${rbac}/clusterroles`,
  `${rbac}/clusterrolebindings`,
  `${admission}/validatingadmissionpolicies`,
  `${admission}/validatingadmissionpolicybindings`,
  "/apis/spire.spiffe.io/v1alpha1/clusterspiffeids",
  "/apis/sandbox.opensandbox.io/v1alpha1/pools",
] as const;

export type ClusterObjects = ReadonlyMap<string, KubernetesObject>;

/** Every object that was made by an engine, by its path; each names its engine as the manager of its fields. */
export async function objectsOfPulumi(api: ClusterApi): Promise<ClusterObjects> {
  const soon = AbortSignal.timeout(30_000);
  const found = new Map<string, KubernetesObject>();
  for (const collection of collections) {
    const { items } = await api.read(collection, soon);
    for (const object of items as readonly KubernetesObject[]) {
      const { managedFields = [], namespace, name } = object.metadata;
      const managers = managedFields as readonly { readonly manager?: string }[];
      if (managers.some(({ manager }) => manager?.startsWith("pulumi-kubernetes") === true))
        found.set(pathOf(collection, namespace, name), object);
    }
  }
  return found;
}

/** By path, what somebody has to want: all but what the cluster keeps of an object by itself. */
export function versions(
  objects: ClusterObjects,
  ours: (path: string) => boolean,
): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    [...objects]
      .filter(([path]) => ours(path))
      .map(([path, { metadata, spec, data, rules }]) => [path, { uid: metadata.uid, spec, data, rules }]),
  );
}

function pathOf(collection: string, namespace: string | undefined, name: string): string {
  if (namespace === undefined) return `${collection}/${name}`;
  const at = collection.lastIndexOf("/");
  return `${collection.slice(0, at)}/namespaces/${namespace}${collection.slice(at)}/${name}`;
}
