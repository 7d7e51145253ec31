import type { KubernetesApi } from "../../controller/kubernetes/kubernetes-api.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import { describeError } from "../../controller/platform/errors.ts";
import type { Kubernetes } from "../../scripts/peers/cluster/kubernetes.ts";
import type { SeenPod } from "./pods-seen.ts";

export const fakeNode = "simulated";
/** Lets Pods on to it. */
export const fakeToleration = JSON.stringify([{ key: "gitea-dynamic-runner/fake", operator: "Exists" }]);

/** Adds a node that has room for so many Pods and says it is ready; nobody runs what is placed there. */
export async function addRoomyNode(kubernetes: Kubernetes, pods: number, signal: AbortSignal): Promise<void> {
  await kubernetes.addFakeNode(fakeNode, signal);
  const room = { cpu: "1000", memory: "1000Gi", "ephemeral-storage": "100000Gi", pods: String(pods) };
  const patch = { status: { capacity: room, allocatable: room } };
  await kubernetes.api.merge(`/api/v1/nodes/${fakeNode}/status`, patch, signal);
}

/** Whether new Pods may come to a node. */
export async function setCordoned(
  { api }: Kubernetes,
  node: string,
  unschedulable: boolean,
  signal: AbortSignal,
): Promise<void> {
  await api.merge(`/api/v1/nodes/${node}`, { spec: { unschedulable } }, signal);
}

/** Says of each Pod on the simulated node, once, that it runs. */
export function createFakeKubelet(getApi: () => KubernetesApi, namespace: string) {
  const told = new Set<string>();
  let running = 0;
  const tell = async (name: string) => {
    const now = new Date(systemClock.now()).toISOString();
    const is = (type: string) => ({ type, status: "True", lastTransitionTime: now });
    const container = {
      name: "executor",
      image: "none",
      imageID: "none",
      containerID: `simulated://${name}`,
      ready: true,
      started: true,
      restartCount: 0,
      state: { running: { startedAt: now } },
    };
    const conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map((type) => is(type));
    await getApi().call(
      {
        method: "PATCH",
        path: `/api/v1/namespaces/${namespace}/pods/${name}/status`,
        contentType: "application/strategic-merge-patch+json",
        body: { status: { phase: "Running", startTime: now, conditions, containerStatuses: [container] } },
      },
      AbortSignal.timeout(30_000),
    );
    running++;
  };
  return {
    running: () => running,
    onPod: ({ metadata: { name }, spec: { nodeName } }: SeenPod) => {
      if (nodeName !== fakeNode || told.has(name)) return;
      told.add(name);
      tell(name).catch((error: unknown) => {
        console.error(`${name}: ${describeError(error)}`);
      });
    },
  };
}
