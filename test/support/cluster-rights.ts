import { permissionsOf } from "../../controller/kubernetes/permissions.ts";
import { controllerServiceAccount, executorNamespace } from "../../scripts/peers/cluster/objects.ts";
import type { Kubernetes } from "../../scripts/peers/cluster/kubernetes.ts";

/** Gives the controller's service account all that a controller in that namespace asks for, and nothing else. */
export async function giveControllerRights({ api }: Kubernetes, signal: AbortSignal): Promise<void> {
  const permissions = permissionsOf({
    controllerNamespace: executorNamespace,
    podNamespace: executorNamespace,
  });
  const rbac = "/apis/rbac.authorization.k8s.io/v1";
  const name = "controller-under-test";
  const subjects = [{ kind: "ServiceAccount", name: controllerServiceAccount, namespace: executorNamespace }];
  const kinds = [
    { kind: "Role", path: `${rbac}/namespaces/${executorNamespace}`, namespace: executorNamespace },
    { kind: "ClusterRole", path: rbac, namespace: undefined },
  ];
  for (const { kind, path, namespace } of kinds) {
    const apiVersion = "rbac.authorization.k8s.io/v1";
    const plural = kind.toLowerCase();
    const rules = permissions
      .filter((permission) => permission.namespace === namespace)
      .map(({ group, resource, verbs }) => ({ apiGroups: [group], resources: [resource], verbs }));
    await api.ensure(`${path}/${plural}s`, { apiVersion, kind, metadata: { name }, rules }, signal);
    const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind, name };
    const binding = { apiVersion, kind: `${kind}Binding`, metadata: { name }, roleRef, subjects };
    await api.ensure(`${path}/${plural}bindings`, binding, signal);
  }
}
