import type { BackendKind } from "./assignment/backend-kind.ts";
import type { Times } from "./assignment/times.ts";
import type { Backend } from "./backends/backend.ts";
import type { Assignments } from "./lifecycle/assignments.ts";
import type { Hearing } from "./lifecycle/hearing.ts";
import type { ExecutorDeed } from "./lifecycle/perform.ts";
import { createReconciler, type Reconciler } from "./lifecycle/reconciler.ts";
import type { Registration } from "./lifecycle/registration.ts";
import type { Random } from "./platform/backoff.ts";
import type { Clock } from "./platform/clock.ts";
import type { Logger } from "./platform/logger.ts";
import type { Task } from "./platform/task-group.ts";
import type { BackendLoad } from "./scheduler/backlog.ts";
import { createSlots, type Slots } from "./slots/slots.ts";
import { createBackendWorker, type BackendWorkerOptions } from "./worker/backend-worker.ts";
import type { CircuitState } from "./worker/circuit.ts";

export type LaneOptions = Pick<
  BackendWorkerOptions,
  | "queue"
  | "gitea"
  | "logLanes"
  | "executorRequest"
  | "newNonce"
  | "onUnknownKey"
  | "onUnreadable"
  | "onEvent"
  | "onCircuit"
  | "timeoutMs"
> & {
  readonly backend: Backend;
  readonly capacity: number;
  readonly assignments: Assignments;
  readonly hearing: Hearing;
  readonly registration: Registration;
  /** Removes what is stored of an assignment's reports. */
  readonly removeReports: (id: string, signal: AbortSignal) => Promise<unknown>;
  /** Hears what the reconciler does to executors. */
  readonly onExecutor: (deed: ExecutorDeed) => void;
  readonly times: Times;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
};

/** Everything of one backend; two lanes share assignments and connections, but no slot and no loop. */
export type Lane = {
  readonly kind: BackendKind;
  readonly backend: Backend;
  readonly slots: Slots;
  readonly reconciler: Reconciler;
  /** Whether the backend is asked for executors now. */
  circuit(): CircuitState;
  /** What waits for a slot. */
  load(): Omit<BackendLoad, "backlog">;
  /** What creates, deletes and decides: for a leader only. */
  readonly leaderTasks: readonly Task[];
  /** What may go on beside the facade until another controller leads. */
  readonly relayTasks: readonly Task[];
};

/** Puts one backend's worker, reconciler and slots together. */
export function createLane(options: LaneOptions): Lane {
  const { backend, assignments, queue, times, clock } = options;
  const { kind } = backend;
  const slots = createSlots(options.capacity);
  const worker = createBackendWorker({ ...options, slots });
  const reconciler = createReconciler({
    backend,
    slots,
    assignments,
    hearing: options.hearing,
    registration: options.registration,
    removeMessage: (sequence, id, signal) => queue.remove(sequence, id, signal),
    removeReports: options.removeReports,
    onExecutor: options.onExecutor,
    maxLifeMs: options.timeoutMs,
    times,
    clock,
    log: options.log.child({ component: "lifecycle" }),
  });
  return {
    kind,
    backend,
    slots,
    reconciler,
    circuit: () => worker.circuit(),
    load: () => {
      const waiting = assignments
        .all()
        .map(({ record }) => record)
        .filter(({ assignment, phase }) => assignment.backend === kind && phase.name === "queued")
        .filter(({ assignment }) => !slots.has(assignment.id));
      const oldest = Math.min(clock.now(), ...waiting.map(({ fetchedAt }) => fetchedAt));
      // Those for which there is a slot are on their way.
      return { kind, waiting: Math.max(0, waiting.length - slots.free()), oldestMs: clock.now() - oldest };
    },
    leaderTasks: [
      { name: `${kind} worker`, run: (signal) => worker.work(signal) },
      { name: `${kind} reconciler`, run: (signal) => reconciler.run(signal) },
      { name: `${kind} waiting rows`, run: (signal) => worker.tellWaiting(signal) },
    ],
    relayTasks: [{ name: `${kind} keep-alive`, run: (signal) => worker.keepAlive(signal) }],
  };
}
