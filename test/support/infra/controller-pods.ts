import { z } from "zod";
import type { ClusterApi } from "../../../scripts/peers/cluster/api.ts";

const ended = z.object({ terminated: z.object({ exitCode: z.number() }).optional() }).default({});
const podList = z.object({
  items: z.array(
    z.object({
      metadata: z.object({ name: z.string(), uid: z.string(), deletionTimestamp: z.string().optional() }),
      status: z.object({
        conditions: z.array(z.object({ type: z.string(), status: z.string() })).default([]),
        containerStatuses: z.array(z.object({ lastState: ended, restartCount: z.number() })).default([]),
      }),
    }),
  ),
});
const line = z.looseObject({ level: z.string(), msg: z.string() });

export type ControllerPod = {
  readonly name: string;
  readonly uid: string;
  /** As the kubelet says. */
  readonly isReady: boolean;
  readonly restarts: number;
  /** Of the container before this one; undefined if there was none. */
  readonly exitCode: number | undefined;
};

/** The Pods of a controller's Deployment, without those that are about to go. */
export async function controllerPods(api: ClusterApi, namespace: string): Promise<readonly ControllerPod[]> {
  const labels = encodeURIComponent("app.kubernetes.io/name=gitea-dynamic-runner");
  const place = `/api/v1/namespaces/${namespace}/pods?labelSelector=${labels}`;
  const { items } = podList.parse(await api.read(place, AbortSignal.timeout(10_000)));
  return items
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .map(({ metadata: { name, uid }, status: { conditions, containerStatuses } }) => ({
      name,
      uid,
      isReady: conditions.some(({ type, status }) => type === "Ready" && status === "True"),
      restarts: containerStatuses[0]?.restartCount ?? 0,
      exitCode: containerStatuses[0]?.lastState.terminated?.exitCode,
    }));
}

/** What a Pod has logged since its container began; of the one that ended before it with `before`, nothing if none did. */
export async function podLog(
  api: ClusterApi,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  before = false,
): Promise<string> {
  const place = `/api/v1/namespaces/${namespace}/pods/${name}/log?previous=${before}`;
  const { status, text } = await api.ask("GET", place, AbortSignal.timeout(10_000));
  return status === 200 ? text : "";
}

/** The lines of a controller's log. */
export function linesOf(log: string): readonly z.infer<typeof line>[] {
  return log
    .split("\n")
    .filter((text) => text.startsWith("{"))
    .map((text) => line.parse(JSON.parse(text)));
}
