import * as z from "zod";
import { openKubernetes } from "../../controller/open-kubernetes.ts";
import type { KubernetesApi } from "../../controller/kubernetes/kubernetes-api.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import type { Kubernetes } from "../../scripts/peers/cluster/kubernetes.ts";

const podSchema = z.object({
  metadata: z.object({ name: z.string() }),
  spec: z.object({ nodeName: z.string().optional() }),
  status: z
    .object({
      phase: z.string().optional(),
      containerStatuses: z
        .array(z.object({ name: z.string(), containerID: z.string().optional() }))
        .optional(),
    })
    .optional(),
});
export type SeenPod = Readonly<z.infer<typeof podSchema>>;

/** When a watch of ours heard of it, in milliseconds since the epoch. */
export type SeenTimes = { readonly created: number; scheduled?: number; container?: string };

export type PodsSeen = AsyncDisposable & {
  /** As the administrator. */
  readonly api: KubernetesApi;
  readonly times: ReadonlyMap<string, SeenTimes>;
  /** Those that are there now. */
  readonly pods: ReadonlyMap<string, SeenPod>;
};

/** Watches the Pods of a namespace that have the label. */
export async function watchPods(
  kubernetes: Kubernetes,
  namespace: string,
  onPod: (pod: SeenPod) => void = () => undefined,
): Promise<PodsSeen> {
  const over = new AbortController();
  const api = await openKubernetes({ KUBECONFIG: kubernetes.adminKubeconfig }, systemClock, over.signal);
  const times = new Map<string, SeenTimes>();
  const pods = new Map<string, SeenPod>();
  const query = { timeoutSeconds: "3600", labelSelector: "ci.ddupan.top/assignment-id" };
  const watching = async () => {
    for await (const { type, object } of api.watch(
      `/api/v1/namespaces/${namespace}/pods`,
      query,
      over.signal,
    )) {
      const pod = podSchema.parse(object);
      const { name } = pod.metadata;
      if (type === "DELETED") {
        pods.delete(name);
        continue;
      }
      pods.set(name, pod);
      const now = systemClock.now();
      const seen = times.get(name) ?? { created: now };
      if (pod.spec.nodeName !== undefined) seen.scheduled ??= now;
      const id = pod.status?.containerStatuses?.[0]?.containerID;
      if (id !== undefined) seen.container ??= id.replace(/^containerd:\/\//, "");
      times.set(name, seen);
      onPod(pod);
    }
  };
  const watched = watching().catch((error: unknown) => {
    if (!over.signal.aborted) throw error;
  });
  return {
    api,
    times,
    pods,
    [Symbol.asyncDispose]: async () => {
      over.abort();
      await watched;
      api.close();
    },
  };
}
