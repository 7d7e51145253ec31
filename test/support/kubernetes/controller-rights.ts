import {
  permissionsOf,
  type Permission,
  type PermissionSettings,
} from "../../../controller/kubernetes/permissions.ts";
import type { ClusterApi, KubernetesObject } from "../../../scripts/peers/cluster/api.ts";
import type { ServiceAccount } from "../../../scripts/peers/cluster/service-account-token.ts";

/** Where executors and the Lease are; the controller's own table says what it has to do there. */
export type RightsOptions = PermissionSettings & {
  /** Leaves one verb of one resource out, as in `pods/delete`. */
  readonly without?: string;
};

const group = "rbac.authorization.k8s.io";

/** Gives a service account exactly the rights of the controller's table. */
export async function grantRights(
  api: ClusterApi,
  account: ServiceAccount,
  { without, ...places }: RightsOptions,
  signal: AbortSignal,
): Promise<void> {
  const wanted = permissionsOf(places).map(({ verbs, ...rest }) => ({
    ...rest,
    verbs: verbs.filter((verb) => `${rest.resource}/${verb}` !== without),
  }));
  const grant = async (kind: "Role" | "ClusterRole", path: string, permissions: readonly Permission[]) => {
    const name = `${account.namespace}-${account.name}`;
    const rules = permissions
      .filter(({ verbs }) => verbs.length > 0)
      .map(({ group: apiGroup, resource, verbs }) => ({
        apiGroups: [apiGroup],
        resources: [resource],
        verbs,
      }));
    await api.ensure(`${path}/${kind.toLowerCase()}s`, object(kind, name, { rules }), signal);
    const subjects = [{ kind: "ServiceAccount", ...account }];
    const roleRef = { apiGroup: group, kind, name };
    const binding = object(`${kind}Binding`, name, { subjects, roleRef });
    await api.ensure(`${path}/${kind.toLowerCase()}bindings`, binding, signal);
  };
  const root = `/apis/${group}/v1`;
  for (const [namespace, permissions] of Map.groupBy(wanted, (one) => one.namespace))
    await (namespace === undefined
      ? grant("ClusterRole", root, permissions)
      : grant("Role", `${root}/namespaces/${namespace}`, permissions));
}

function object(kind: string, name: string, content: Readonly<Record<string, unknown>>): KubernetesObject {
  return { apiVersion: `${group}/v1`, kind, metadata: { name }, ...content };
}
