export type Permission = {
  /** "" for the core group. */
  readonly group: string;
  readonly resource: string;
  /** Where; undefined for the whole cluster. */
  readonly namespace?: string;
  readonly verbs: readonly string[];
  /** As in "needed to start executors". */
  readonly neededTo: string;
};

export type PermissionSettings = {
  /** Of the Lease; undefined where none is used. */
  readonly controllerNamespace: string | undefined;
  /** Of the executors; undefined where none are Pods. */
  readonly podNamespace: string | undefined;
  /** Whether VMs get their identities by agents of their own. */
  readonly guestAgents?: boolean;
};

/** The API of spire-controller-manager, which is there only if somebody has installed it. */
export const staticEntryApi = {
  group: "spire.spiffe.io",
  version: "v1alpha1",
  resource: "clusterstaticentries",
} as const;

/** All that the controller does in a cluster: the Role and the ClusterRole that it needs, and what it checks at its start. */
export function permissionsOf({
  controllerNamespace,
  podNamespace,
  guestAgents = false,
}: PermissionSettings): readonly Permission[] {
  return [
    ...(controllerNamespace === undefined ? [] : forLeadership(controllerNamespace)),
    ...(podNamespace === undefined ? [] : [...inNamespace(podNamespace), nodes]),
    ...(podNamespace === undefined && !guestAgents ? [] : [entries]),
  ];
}

function forLeadership(namespace: string): readonly Permission[] {
  const verbs = ["get", "create", "update"];
  return [
    { group: "coordination.k8s.io", resource: "leases", namespace, verbs, neededTo: "agree on a leader" },
  ];
}

function inNamespace(namespace: string): readonly Permission[] {
  const pods = { group: "", resource: "pods", namespace };
  return [
    { ...pods, verbs: ["create"], neededTo: "start executors" },
    { ...pods, verbs: ["get", "list", "watch"], neededTo: "see what executors do" },
    { ...pods, verbs: ["patch"], neededTo: "write on an executor that it has to end" },
    { ...pods, verbs: ["delete"], neededTo: "remove executors" },
    {
      ...pods,
      resource: "events",
      verbs: ["list", "watch"],
      neededTo: "tell why an executor does not start",
    },
  ];
}

const nodes: Permission = {
  group: "",
  resource: "nodes",
  verbs: ["get"],
  neededTo: "name the agent of an executor's node",
};

const entries: Permission = {
  group: staticEntryApi.group,
  resource: staticEntryApi.resource,
  verbs: ["create", "get", "list", "watch", "delete"],
  neededTo: "give executors their identities",
};
