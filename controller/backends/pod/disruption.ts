import type { FailureReason } from "../../assignment/failure-reasons.ts";
import { type PodDocument, wordsOf } from "./pod-document.ts";

/** Somebody in the cluster took the Pod away, and said why. */
export type Disruption = { readonly cause: FailureReason; readonly seen: string };

/** https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions */
const causes: ReadonlyMap<string, FailureReason> = new Map([
  ["PreemptionByScheduler", "evicted"],
  ["EvictionByEvictionAPI", "evicted"],
  ["TerminationByKubelet", "evicted"],
  // A node that is not heard of any more gets a taint first, and its Pods are deleted for that.
  ["DeletionByTaintManager", "node_lost"],
  ["DeletionByPodGC", "node_lost"],
]);

/** Who took the Pod away, or is doing so; undefined if nobody who says so. */
export function disruptionOf({ conditions }: PodDocument): Disruption | undefined {
  const told = conditions.find(({ type, status }) => type === "DisruptionTarget" && status === "True");
  if (told === undefined) return undefined;
  const { reason = "DisruptionTarget", message } = told;
  return { cause: causes.get(reason) ?? "evicted", seen: wordsOf({ reason, message }) };
}
