import type { Clock } from "../../platform/clock.ts";
import type { ExecutorState } from "../backend.ts";
import type { KnownEvents } from "./known-events.ts";
import { type Blocked, changesAt, executorState, stillBlocked } from "./patience.ts";
import type { PodDocument } from "./pod-document.ts";
import { readPod } from "./pod-status.ts";

/** The states of Pods, with the memory that patience needs. Whoever hears of a change looks, so that it is remembered. */
export type PodStates = {
  lookAt(pod: PodDocument): {
    readonly state: ExecutorState;
    /** When it will be another one by time alone by the steady clock; undefined: never. */
    readonly changesAt: number | undefined;
  };
  forget(pod: PodDocument): void;
};

export function createPodStates(events: KnownEvents, clock: Pick<Clock, "now">): PodStates {
  const blocked = new Map<string, Blocked>();
  return {
    lookAt: (pod) => {
      const now = clock.now();
      const reading = readPod(pod, events.of(pod.uid));
      const obstacle = stillBlocked(blocked.get(pod.uid), reading, now);
      if (obstacle === undefined) blocked.delete(pod.uid);
      else blocked.set(pod.uid, obstacle);
      return { state: executorState(reading, obstacle, now), changesAt: changesAt(reading, obstacle, now) };
    },
    forget: ({ uid }) => {
      blocked.delete(uid);
    },
  };
}
