import type { Provider } from "@pulumi/kubernetes";
import { ClusterRole, ClusterRoleBinding, Role, RoleBinding } from "@pulumi/kubernetes/rbac/v1/index.js";
import { ComponentResource, type ComponentResourceOptions } from "@pulumi/pulumi";
import type { Names } from "./names.ts";

/** As in a Role. */
export type Rule = {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
};

export type Rights = {
  /** For the Lease by which the controllers take turns. */
  readonly own: readonly Rule[];
  /** In the executors' namespace. */
  readonly executors: readonly Rule[];
  readonly cluster: readonly Rule[];
};

/** Exactly what the controller does in a cluster: a test compares this with what it asks for itself. */
export function rightsOf({
  withPods,
  withEntries,
}: {
  readonly withPods: boolean;
  readonly withEntries: boolean;
}): Rights {
  return {
    own: [{ apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["get", "create", "update"] }],
    executors: withPods
      ? [
          {
            apiGroups: [""],
            resources: ["pods"],
            verbs: ["create", "get", "list", "watch", "patch", "delete"],
          },
          { apiGroups: [""], resources: ["events"], verbs: ["list", "watch"] },
        ]
      : [],
    cluster: [
      ...(withPods ? [{ apiGroups: [""], resources: ["nodes"], verbs: ["get"] }] : []),
      ...(withEntries
        ? [
            {
              apiGroups: ["spire.spiffe.io"],
              resources: ["clusterstaticentries"],
              verbs: ["create", "get", "list", "watch", "delete"],
            },
          ]
        : []),
    ],
  };
}

export type ControllerRightsArgs = {
  readonly names: Names;
  readonly provider: Provider;
  readonly rights: Rights;
};

/** Binds the controller's service account to exactly these rights. */
export class ControllerRights extends ComponentResource {
  constructor(name: string, args: ControllerRightsArgs, options?: ComponentResourceOptions) {
    super("gitea-dynamic-runner:index:ControllerRights", name, {}, options);
    const { names, provider, rights } = args;
    const child = { parent: this, provider };
    const account = { kind: "ServiceAccount", name: names.controller, namespace: names.namespace };
    const apiGroup = "rbac.authorization.k8s.io";
    const bindIn = (role: string, namespace: string, rules: readonly Rule[]) => {
      if (rules.length === 0) return;
      const metadata = { name: names.controller, namespace };
      const made = new Role(role, { metadata, rules: rules.map(writable) }, child);
      new RoleBinding(
        role,
        { metadata, roleRef: { apiGroup, kind: "Role", name: names.controller }, subjects: [account] },
        { ...child, dependsOn: made },
      );
    };
    bindIn("own", names.namespace, rights.own);
    bindIn("executors", names.executorNamespace, rights.executors);
    if (rights.cluster.length > 0) {
      const metadata = { name: names.controller };
      const made = new ClusterRole("cluster", { metadata, rules: rights.cluster.map(writable) }, child);
      new ClusterRoleBinding(
        "cluster",
        { metadata, roleRef: { apiGroup, kind: "ClusterRole", name: names.controller }, subjects: [account] },
        { ...child, dependsOn: made },
      );
    }
    this.registerOutputs({});
  }
}

function writable({ apiGroups, resources, verbs }: Rule) {
  return { apiGroups: [...apiGroups], resources: [...resources], verbs: [...verbs] };
}
