import type { Failure } from "./assignment/failure.ts";
import { failureReasons } from "./assignment/failure-reasons.ts";
import type { Lane } from "./backend-lane.ts";
import type { CoreBackend } from "./core-ports.ts";
import type { AssignmentEvent } from "./events/event.ts";
import type { BackendState } from "./health/backend-checks.ts";
import { createTally } from "./health/tally.ts";
import { circuitProblem } from "./worker/circuit.ts";

/** What one backend shows of itself now. `since`: when this controller began to look after it, undefined before. */
export function stateOf(
  lane: Lane,
  backend: Pick<CoreBackend, "capacity" | "viewAgeMs"> | undefined,
  since: number | undefined,
  now: number,
): BackendState {
  const { kind, slots, reconciler } = lane;
  const listedAt = reconciler.listedAt() ?? since;
  const { waiting, oldestMs } = lane.load();
  return {
    backend: kind,
    used: slots.held().length,
    capacity: backend?.capacity ?? 0,
    waitingMs: waiting === 0 ? 0 : oldestMs,
    circuit: circuitProblem(lane.circuit()),
    silentMs: listedAt === undefined ? undefined : now - listedAt,
    viewAgeMs: backend?.viewAgeMs?.(),
    lingering: reconciler.lingering().size,
    invalid: reconciler.invalid(),
  };
}

export type Counts = ReturnType<typeof createCounts>;

/** What is counted of failures, by the closed list of their reasons, and of lost fetches. */
export function createCounts() {
  const failures = createTally(failureReasons);
  const lostAttempts = createTally(failureReasons);
  let lostFetches = 0;
  return {
    failed: ({ reason }: Failure) => {
      failures.count(reason);
    },
    change: ({ event, reason }: AssignmentEvent) => {
      if (reason === undefined) return;
      (event === "attempt_lost" ? lostAttempts : failures).count(reason);
    },
    fetchLost: () => void lostFetches++,
    figures: {
      failures: () => failures.all(),
      lostAttempts: () => lostAttempts.all(),
      lostFetches: () => lostFetches,
    },
  };
}
