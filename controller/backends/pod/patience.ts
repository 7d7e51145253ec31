import { failureFor, type Failure } from "../../assignment/failure.ts";
import type { FailureReason } from "../../assignment/failure-reasons.ts";
import type { ExecutorState } from "../backend.ts";
import type { PodReading } from "./pod-status.ts";

/** Since when one obstacle has been seen, by the steady clock. A restart begins anew: that only makes it wait longer. */
export type Blocked = {
  readonly reason: FailureReason;
  /** Milliseconds by the steady clock, as all times here. */
  readonly since: number;
};

/** What is to be remembered of a Pod's obstacle, after what was remembered of it until now. */
export function stillBlocked(
  before: Blocked | undefined,
  reading: PodReading,
  now: number,
): Blocked | undefined {
  if (reading.phase !== "starting" || reading.obstacle === undefined) return undefined;
  const { reason } = reading.obstacle.failure;
  return before?.reason === reason ? before : { reason, since: now };
}

/**
 * The state that the worker is told. An obstacle that may pass by itself is told as "too slow" during its grace, with
 * its own evidence: the worker gives up a permanent one as soon as it hears of it.
 */
export function executorState(reading: PodReading, blocked: Blocked | undefined, now: number): ExecutorState {
  if (reading.phase !== "starting") return reading;
  const { obstacle } = reading;
  if (obstacle === undefined) return { phase: "starting" };
  const { failure, patience } = obstacle;
  switch (patience.kind) {
    case "permanent":
      return waiting(failure);
    case "grace":
      return waiting(
        passed(blocked, now) >= patience.ms ? failure : failureFor("too_slow", failure.evidence),
      );
    case "wait":
      return passed(blocked, now) >= patience.quietMs ? waiting(failure) : { phase: "starting" };
    default:
      return patience satisfies never;
  }
}

/** When the state will be another one by time alone; undefined: never. */
export function changesAt(
  reading: PodReading,
  blocked: Blocked | undefined,
  now: number,
): number | undefined {
  if (reading.phase !== "starting" || reading.obstacle === undefined) return undefined;
  const { patience } = reading.obstacle;
  const ms = patience.kind === "grace" ? patience.ms : patience.kind === "wait" ? patience.quietMs : 0;
  const at = (blocked?.since ?? now) + ms;
  return at > now ? at : undefined;
}

function waiting(told: Failure): ExecutorState {
  return { phase: "starting", waiting: told };
}

function passed(blocked: Blocked | undefined, now: number): number {
  return blocked === undefined ? 0 : now - blocked.since;
}
