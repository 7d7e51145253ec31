import type { Clock } from "../../platform/clock.ts";
import { describeError } from "../../platform/errors.ts";
import type { Logger } from "../../platform/logger.ts";
import { isAbortOf, withDeadline } from "../../platform/signal.ts";
import { endPod, type EndPodOptions } from "./end-pod.ts";
import type { PodDocument } from "./pod-document.ts";
import { killedForAnnotation } from "./pod-end.ts";
import { belongsTo } from "./pod-executor.ts";

const everyMs = 10_000;
/** The kubelet does it by itself, if a node took the Pod at once. */
const kubeletMs = 15_000;
const endMs = 60_000;

/**
 * Ends Pods that are past their deadline, until the signal is aborted. The kubelet counts from when it took a Pod; what
 * it waited for a node comes on top, and one that no node takes has no deadline at all.
 */
export async function endOverdue(
  options: EndPodOptions & { readonly clock: Clock; readonly log: Logger },
  signal: AbortSignal,
): Promise<void> {
  const { view, owner, clock, log } = options;
  const busy = new Map<string, Promise<void>>();
  const end = async (name: string) => {
    const why = { reason: "deadline", cause: "deadline" } as const;
    try {
      await withDeadline(clock, endMs, (abort) => endPod(name, why, options, abort), signal);
    } catch (error) {
      if (!isAbortOf(signal, error))
        log.warn({ executor: name, error: describeError(error) }, "ending a pod past its deadline failed");
    } finally {
      busy.delete(name);
    }
  };
  try {
    for (;;) {
      for (const pod of view.all()) {
        const late = belongsTo(pod, owner) && isOverdue(pod, clock.now());
        if (late && view.stateOf(pod).phase !== "ended" && !busy.has(pod.name))
          busy.set(pod.name, end(pod.name));
      }
      await clock.sleep(everyMs, signal);
    }
  } catch (error) {
    if (!isAbortOf(signal, error)) throw error;
  } finally {
    await Promise.all(busy.values());
  }
}

/** One that was told to end has the shortest of all deadlines, and whoever told it sees to the rest. */
function isOverdue({ createdAt, deadlineSeconds, annotations }: PodDocument, now: number): boolean {
  if (createdAt === undefined || deadlineSeconds === undefined) return false;
  if (annotations[killedForAnnotation] !== undefined) return false;
  return now >= createdAt + deadlineSeconds * 1000 + kubeletMs;
}
