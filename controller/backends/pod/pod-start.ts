import { type Failure, failureFor } from "../../assignment/failure.ts";
import { disruptionOf } from "./disruption.ts";
import { type ContainerState, type PodDocument, type Said, wordsOf } from "./pod-document.ts";
import type { PodEvent } from "./pod-event.ts";
import { otherCause, type Patience, startCause } from "./start-causes.ts";

/** Why an executor does not run yet, and for how long that may be. */
export type Obstacle = { readonly failure: Failure; readonly patience: Patience };

/**
 * What keeps a Pod that has not started from starting, or undefined if it is only on its way. What stands in the Pod
 * counts before its events, which stay for an hour after they were true.
 */
export function obstacleOf(pod: PodDocument, events: readonly PodEvent[]): Obstacle | undefined {
  if (pod.deleting) {
    const by = disruptionOf(pod)?.seen ?? "its Pod is being deleted";
    return obstacle({ reason: "deleted_before_claim", patience: { kind: "wait", quietMs: 0 } }, by);
  }
  for (const container of [pod.executor, ...pod.initContainers]) {
    const found = container === undefined ? undefined : waitOf(container, container !== pod.executor);
    if (found !== undefined) return found;
  }
  const scheduled = pod.conditions.find(({ type }) => type === "PodScheduled");
  if (scheduled?.status === "False") return known(scheduled);
  const newest = events.findLast(
    ({ reason }) => progress.has(reason) || startCause(reason, "") !== undefined,
  );
  return newest === undefined ? undefined : known(newest);
}

/** Events that say that what was told before is over. */
const progress = new Set(["Scheduled", "SuccessfulAttachVolume", "Pulled", "Created", "Started"]);

/** What the kubelet says of a container before it has tried to start it. */
const onItsWay = new Set(["ContainerCreating", "PodInitializing"]);

function waitOf({ name, waiting }: ContainerState, isInit: boolean): Obstacle | undefined {
  if (waiting?.reason === undefined || onItsWay.has(waiting.reason)) return undefined;
  const seen = `${isInit ? `init container ${name}: ` : ""}${wordsOf(waiting)}`;
  return obstacle(startCause(waiting.reason, waiting.message ?? "") ?? otherCause, seen);
}

function known(said: Said): Obstacle | undefined {
  const cause = startCause(said.reason ?? "", said.message ?? "");
  return cause === undefined ? undefined : obstacle(cause, wordsOf(said));
}

function obstacle(cause: typeof otherCause, seen: string): Obstacle {
  return { failure: failureFor(cause.reason, seen), patience: cause.patience };
}
