import type { ExecutorState } from "../backend.ts";
import { tidyEvidence } from "../../assignment/evidence.ts";
import { disruptionOf } from "./disruption.ts";
import type { PodDocument } from "./pod-document.ts";
import { endOf, killedForAnnotation, type PodEnd } from "./pod-end.ts";
import type { PodEvent } from "./pod-event.ts";
import { type Obstacle, obstacleOf } from "./pod-start.ts";

/** The state of an executor as its Pod tells it, before anybody's patience with an obstacle is taken into account. */
export type PodReading =
  | { readonly phase: "starting"; readonly obstacle?: Obstacle }
  | Extract<ExecutorState, { readonly phase: "running" | "ended" }>;

/**
 * Reads the state of an executor from its Pod and from the Pod's events. Total. The executor's container decides:
 * others may run on or fail. A Pod that is being deleted, and whose container runs, runs: on a node that nobody
 * hears of, the job may well go on and reach the facade.
 */
export function readPod(pod: PodDocument, events: readonly PodEvent[]): PodReading {
  const { executor, phase } = pod;
  if (executor?.terminated !== undefined || phase === "Failed" || phase === "Succeeded")
    return ended(endOf(pod));
  if (executor?.running === true || (executor === undefined && phase === "Running"))
    return { phase: "running" };
  // No node will take it any more.
  if (pod.deleting && pod.nodeName === undefined) return ended(endOf(pod));
  const obstacle = obstacleOf(pod, events);
  return obstacle === undefined ? { phase: "starting" } : { phase: "starting", obstacle };
}

/**
 * How an executor ended whose Pod is gone from the API, by the last that was seen of it. Nothing runs without its Pod,
 * except on a node that nobody hears of.
 */
export function readGonePod(last: PodDocument, events: readonly PodEvent[]): PodReading & PodEnd {
  const reading = readPod(last, events);
  if (reading.phase === "ended") return reading;
  if (last.annotations[killedForAnnotation] !== undefined) return ended(endOf(last));
  const disruption = disruptionOf(last);
  return ended(
    disruption === undefined
      ? { cause: "killed", reason: "its Pod was deleted" }
      : { cause: disruption.cause, reason: disruption.seen },
  );
}

function ended({ reason, cause }: PodEnd): Extract<PodReading, { phase: "ended" }> {
  return { phase: "ended", reason: tidyEvidence(reason), ...(cause === undefined ? {} : { cause }) };
}
