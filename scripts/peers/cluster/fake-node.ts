import { systemClock } from "../../../controller/platform/clock.ts";
import type { ClusterApi } from "./api.ts";

const refreshMs = 2_000;

/**
 * Adds a node that says it is ready and never takes a Pod. When all nodes of a cluster are lost nothing is evicted
 * from them, so a cluster of one node needs another for that. Disposing it ends its news, and removes it; so does the
 * end of the cluster.
 */
export async function addFakeNode(
  api: ClusterApi,
  name: string,
  clusterEnded: AbortSignal,
  signal: AbortSignal,
): Promise<AsyncDisposable> {
  const taint = { key: "gitea-dynamic-runner/fake", value: "true", effect: "NoSchedule" };
  const node = { apiVersion: "v1", kind: "Node", metadata: { name }, spec: { taints: [taint] } };
  await api.create("/api/v1/nodes", node, signal);
  await tellReady(api, name, signal);
  const over = new AbortController();
  const either = AbortSignal.any([over.signal, clusterEnded]);
  const refreshing = async () => {
    while (!either.aborted) {
      // An API server that is stopped is no reason to give up.
      await tellReady(api, name, either).catch(() => undefined);
      await systemClock.sleep(refreshMs, either).catch(() => undefined);
    }
  };
  const ended = refreshing();
  return {
    [Symbol.asyncDispose]: async () => {
      over.abort();
      await ended;
      if (!clusterEnded.aborted) await api.remove(`/api/v1/nodes/${name}`, clusterEnded);
    },
  };
}

async function tellReady(api: ClusterApi, name: string, signal: AbortSignal): Promise<void> {
  const ready = {
    type: "Ready",
    status: "True",
    reason: "KubeletReady",
    message: "as good as ready",
    lastHeartbeatTime: new Date(systemClock.now()).toISOString(),
    lastTransitionTime: "2026-01-01T00:00:00Z",
  };
  const body = { status: { conditions: [ready] } };
  const type = "application/strategic-merge-patch+json";
  await api.ask("PATCH", `/api/v1/nodes/${name}/status`, signal, { body, type });
}
