import { systemClock } from "../../../controller/platform/clock.ts";
import type { ClusterApi, KubernetesObject } from "../../../scripts/peers/cluster/api.ts";

const everyMs = 200;

/**
 * Says of the Pods in these namespaces that they run and are ready, until it is disposed of: nobody runs them. A Deployment
 * that is never ready would be waited for.
 */
export function playKubelet(api: ClusterApi, namespaces: readonly string[]): AsyncDisposable {
  const over = new AbortController();
  const playing = async () => {
    while (!over.signal.aborted) {
      // An API server that is stopped is no reason to give up, nor a Pod that goes.
      for (const namespace of namespaces) await sayReady(api, namespace, over.signal).catch(() => undefined);
      await systemClock.sleep(everyMs, over.signal).catch(() => undefined);
    }
  };
  const ended = playing();
  return {
    [Symbol.asyncDispose]: async () => {
      over.abort(new Error("the kubelet is played no longer"));
      await ended;
    },
  };
}

async function sayReady(api: ClusterApi, namespace: string, signal: AbortSignal): Promise<void> {
  const pods = `/api/v1/namespaces/${namespace}/pods`;
  const { items } = await api.read(`${pods}?fieldSelector=status.phase=Pending`, signal);
  const now = new Date(systemClock.now()).toISOString();
  const conditions = ["Initialized", "PodScheduled", "ContainersReady", "Ready"].map((type) => ({
    type,
    status: "True",
    lastTransitionTime: now,
  }));
  const type = "application/merge-patch+json";
  for (const { metadata } of items as readonly KubernetesObject[]) {
    const body = { status: { phase: "Running", startTime: now, conditions } };
    await api.ask("PATCH", `${pods}/${metadata.name}/status`, signal, { body, type });
  }
}
