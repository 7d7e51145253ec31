import * as z from "zod";
import {
  permissionsOf,
  type Permission,
  type PermissionSettings,
} from "../../../controller/kubernetes/permissions.ts";
import type { ClusterApi, KubernetesObject } from "../../../scripts/peers/cluster/api.ts";
import type { ServiceAccount } from "../../../scripts/peers/cluster/service-account-token.ts";
import { eventually } from "../eventually.ts";

/** Where executors and the Lease are; the controller's own table says what it has to do there. */
export type RightsOptions = PermissionSettings & {
  /** Leaves one verb of one resource out, as in `pods/delete`. */
  readonly without?: string;
};

const reviewed = z.object({ status: z.object({ allowed: z.boolean() }) });
const group = "rbac.authorization.k8s.io";

/**
 * Gives a service account exactly the rights of the controller's table; resolves when the API server goes by them, which it does a
 * moment after they are stored.
 */
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
  for (const permission of wanted)
    for (const verb of permission.verbs)
      await eventually(`${account.name} may ${verb} ${permission.resource}`, () =>
        isAllowed(api, account, verb, permission, signal),
      );
}

async function isAllowed(
  api: ClusterApi,
  { namespace, name }: ServiceAccount,
  verb: string,
  { group: apiGroup, resource: both, namespace: where }: Omit<Permission, "verbs">,
  signal: AbortSignal,
): Promise<boolean> {
  const [resource, subresource] = both.split("/");
  const spec = {
    user: `system:serviceaccount:${namespace}:${name}`,
    groups: ["system:serviceaccounts", `system:serviceaccounts:${namespace}`, "system:authenticated"],
    resourceAttributes: { verb, group: apiGroup, resource, subresource, namespace: where },
  };
  const review = { apiVersion: "authorization.k8s.io/v1", kind: "SubjectAccessReview", spec };
  const answer = await api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review, signal);
  return reviewed.parse(answer).status.allowed;
}

function object(kind: string, name: string, content: Readonly<Record<string, unknown>>): KubernetesObject {
  return { apiVersion: `${group}/v1`, kind, metadata: { name }, ...content };
}
