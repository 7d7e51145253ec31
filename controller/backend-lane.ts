import type { BackendKind } from "./assignment/backend-kind.ts";
import { currentAttempt, type AssignmentRecord, type TaskResult } from "./assignment/record.ts";
import type { Assignment } from "./assignment/assignment.ts";
import type { Times } from "./assignment/times.ts";
import type { Backend, ExecutorRequest } from "./backends/backend.ts";
import type { Assignments } from "./lifecycle/assignments.ts";
import { createReconciler, type Reconciler } from "./lifecycle/reconciler.ts";
import type { Clock } from "./platform/clock.ts";
import type { Logger } from "./platform/logger.ts";
import type { Task } from "./platform/task-group.ts";
import type { BackendLoad } from "./scheduler/backlog.ts";
import { createSlots, type Slots } from "./slots/slots.ts";
import type { Delivery } from "./worker/delivery.ts";
import { createEnsureExecutor } from "./worker/ensure-executor.ts";
import { createKeepAlive } from "./worker/keep-alive.ts";
import type { ObeyGiteaOptions } from "./worker/obey-gitea.ts";
import { createProcessDelivery } from "./worker/process-delivery.ts";
import { createWaitForClaim } from "./worker/wait-for-claim.ts";
import { createWorker } from "./worker/worker.ts";

export type LaneOptions = {
  readonly backend: Backend;
  readonly capacity: number;
  readonly assignments: Assignments;
  readonly queue: {
    next(
      backend: BackendKind,
      options: { readonly expiresMs: number },
      signal: AbortSignal,
    ): Promise<Delivery | undefined>;
    remove(sequence: number, assignmentId: string, signal: AbortSignal): Promise<unknown>;
  };
  readonly beat: (taskId: bigint, signal: AbortSignal) => Promise<"running" | TaskResult | "gone">;
  readonly reportEnd: (
    task: { readonly assignment: Assignment; readonly record?: AssignmentRecord },
    result: TaskResult,
    reason: readonly string[],
    signal: AbortSignal,
  ) => Promise<TaskResult | "gone">;
  readonly executorRequest: (record: AssignmentRecord) => ExecutorRequest;
  readonly newNonce: () => string;
  readonly times: Times;
  readonly clock: Clock;
  readonly log: Logger;
};

/** Everything of one backend; two lanes share assignments and connections, but no slot and no loop. */
export type Lane = {
  readonly backend: Backend;
  readonly slots: Slots;
  readonly reconciler: Reconciler;
  /** They create, delete and give verdicts. */
  readonly leaderTasks: readonly Task[];
  /** They speak for tasks that nobody has claimed. */
  readonly relayTasks: readonly Task[];
  /** What waits for a slot. */
  load(): Omit<BackendLoad, "backlog">;
};

export function createLane(options: LaneOptions): Lane {
  const { backend, assignments, times, clock } = options;
  const { kind } = backend;
  const log = options.log.child({ component: "worker" });
  const slots = createSlots(options.capacity);
  const report = (assignment: string | undefined, error: string) => {
    log.error({ backend: kind, assignment, error }, "assignment processing error");
  };
  const executorEvent = (event: string, record: AssignmentRecord, executor?: string) => {
    const { phase, assignment } = record;
    log.info(
      { event, backend: kind, assignment: assignment.id, executor, phase: phase.name },
      "executor transition",
    );
  };
  const reportEnd: ObeyGiteaOptions["reportEnd"] = (record, ...rest) =>
    options.reportEnd({ assignment: record.assignment, record }, ...rest);
  const ensureExecutor = createEnsureExecutor({
    backend,
    assignments,
    beat: options.beat,
    reportEnd,
    executorRequest: options.executorRequest,
    newNonce: options.newNonce,
    event: (event, record, executor) => {
      executorEvent(event, record, executor?.name);
    },
    times,
    clock,
  });
  const process = createProcessDelivery({
    backend,
    slots,
    assignments,
    ensureExecutor,
    waitForClaim: createWaitForClaim({ backend, assignments, times, clock }),
    event: (event, assignment, retryDelayMs) => {
      const delay = retryDelayMs === undefined ? {} : { retry_delay: retryDelayMs / 1000 };
      log.info({ event, backend: kind, assignment, ...delay }, "assignment transition");
    },
    identityBound: (id, executor) => {
      const record = assignments.get(id)?.record;
      if (record !== undefined && currentAttempt(record) !== undefined)
        executorEvent("identity_bound", record, executor.name);
    },
    report,
    times,
    clock,
  });
  const worker = createWorker({
    kind,
    queue: options.queue,
    slots,
    assignments,
    process,
    report,
    times,
    clock,
  });
  const keepAlive = createKeepAlive({
    kind,
    assignments,
    beat: options.beat,
    reportEnd,
    report,
    times,
    clock,
  });
  const reconciler = createReconciler({
    backend,
    slots,
    assignments,
    reportEnd: options.reportEnd,
    removeMessage: (sequence, id, signal) => options.queue.remove(sequence, id, signal),
    times,
    clock,
    log: options.log.child({ component: "lifecycle" }),
  });
  return {
    backend,
    slots,
    reconciler,
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
      { name: `${kind} worker`, run: (signal) => worker.run(signal) },
      { name: `${kind} reconciler`, run: (signal) => reconciler.run(signal) },
    ],
    relayTasks: [{ name: `${kind} keep-alive`, run: (signal) => keepAlive.run(signal) }],
  };
}
