import type { Kubernetes } from "../../../scripts/peers/cluster/kubernetes.ts";
import { eventually } from "../eventually.ts";
import { listObjects } from "./cluster-platform.ts";
import type { PodOfJob } from "./troubles.ts";

/** Every executor's Pod that was ever seen in a namespace, by looking often. */
export type PodHistory = AsyncDisposable & {
  /** Names of Pods, by assignment. */
  readonly pods: ReadonlyMap<string, ReadonlySet<string>>;
};

const everyMs = 250;

export function recordPods(kubernetes: Kubernetes, namespace: string): PodHistory {
  const pods = new Map<string, Set<string>>();
  const over = new AbortController();
  const look = async () => {
    const now = (await listObjects(kubernetes, `/api/v1/namespaces/${namespace}/pods`).catch(
      () => [],
    )) as unknown as readonly PodOfJob[];
    for (const { metadata } of now) {
      const id = metadata.labels["ci.ddupan.top/assignment-id"] ?? "";
      pods.set(id, (pods.get(id) ?? new Set()).add(metadata.name));
    }
    return over.signal.aborted;
  };
  const looking = eventually("the end of the record", look, 3_600_000, everyMs);
  return {
    pods,
    [Symbol.asyncDispose]: async () => {
      over.abort();
      await looking;
    },
  };
}

/** Waits until a namespace has neither Pods nor registration entries of ours. */
export async function untilNothingLeft(kubernetes: Kubernetes, namespace: string): Promise<void> {
  const isEmpty = async () => {
    const pods = await listObjects(kubernetes, `/api/v1/namespaces/${namespace}/pods`);
    const entries = await listObjects(kubernetes, "/apis/spire.spiffe.io/v1alpha1/clusterstaticentries");
    return pods.length === 0 && entries.length === 0;
  };
  await eventually("Pods and entries are gone", isEmpty, 120_000, everyMs);
}
