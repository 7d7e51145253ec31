import type { BackendKind } from "../assignment/backend-kind.ts";
import { currentAttempt, type AssignmentRecord } from "../assignment/record.ts";
import type { Times } from "../assignment/times.ts";
import type { Backend } from "../backends/backend.ts";
import type { Random } from "../platform/backoff.ts";
import type { Clock } from "../platform/clock.ts";
import type { Logger } from "../platform/logger.ts";
import { createAttemptHistory } from "./attempt-history.ts";
import { type CircuitState, createCircuit } from "./circuit.ts";
import { createEnsureExecutor, type EnsureExecutorOptions } from "./ensure-executor.ts";
import type { HeldAssignment } from "./from-memory.ts";
import { createKeepAlive, type KeepAliveOptions } from "./keep-alive.ts";
import { createProcessDelivery, type ProcessDeliveryOptions } from "./process-delivery.ts";
import { createWaitForClaim } from "./wait-for-claim.ts";
import { createWaitingRows, type WaitingRowsOptions } from "./waiting-rows.ts";
import { createWorker, type WorkerOptions, type WorkerQueue } from "./worker.ts";

export type BackendWorkerOptions = {
  readonly backend: Backend;
  /** The backend's own limit for an executor. */
  readonly timeoutMs: number;
  readonly slots: ProcessDeliveryOptions["slots"] & WorkerOptions["slots"];
  readonly assignments: KeepAliveOptions["assignments"] &
    EnsureExecutorOptions["assignments"] &
    ProcessDeliveryOptions["assignments"] & { all(): readonly HeldAssignment[] };
  readonly queue: WorkerQueue;
  readonly gitea: WaitingRowsOptions["gitea"] & { readonly beat: EnsureExecutorOptions["beat"] };
  readonly logLanes: WaitingRowsOptions["logLanes"];
  readonly executorRequest: EnsureExecutorOptions["executorRequest"];
  readonly newNonce: EnsureExecutorOptions["newNonce"];
  /** Called for each delivery that needs a key which we lack: health has to say so. */
  readonly onUnknownKey: (kind: BackendKind, assignmentId: string) => void;
  readonly times: Times;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
};

/** All that brings one backend's assignments to their claim. Two share nothing but what they are given. */
export type BackendWorker = {
  /** Creates executors; each of these three runs until its signal is aborted. */
  work(signal: AbortSignal): Promise<void>;
  /** Tells waiting jobs why they wait. */
  tellWaiting(signal: AbortSignal): Promise<void>;
  /** Speaks for what nobody has claimed. */
  keepAlive(signal: AbortSignal): Promise<void>;
  /** Whether the backend is asked for executors now. */
  circuit(): CircuitState;
};

export function createBackendWorker(options: BackendWorkerOptions): BackendWorker {
  const { backend, slots, assignments, queue, gitea, times, clock, random } = options;
  const { kind } = backend;
  const log = options.log.child({ component: "worker" });
  const report = (assignment: string | undefined, error: string) => {
    log.error({ backend: kind, assignment, error }, "assignment processing error");
  };
  const executorEvent = (event: string, { phase, assignment }: AssignmentRecord, executor?: string) => {
    log.info(
      { event, backend: kind, assignment: assignment.id, executor, phase: phase.name },
      "executor transition",
    );
  };
  const circuit = createCircuit(clock, times);
  const history = createAttemptHistory(times, clock);
  const rows = createWaitingRows({
    kind,
    assignments,
    logLanes: options.logLanes,
    gitea,
    circuit,
    report,
    times,
    clock,
  });
  const waits: EnsureExecutorOptions["waits"] = (id, failure) => {
    rows.waits(id, failure);
  };
  const process = createProcessDelivery({
    backend,
    slots,
    assignments,
    circuit,
    history,
    ensureExecutor: createEnsureExecutor({
      backend,
      timeoutMs: options.timeoutMs,
      assignments,
      circuit,
      history,
      beat: gitea.beat,
      executorRequest: options.executorRequest,
      newNonce: options.newNonce,
      event: (event, record, executor) => {
        executorEvent(event, record, executor?.name);
      },
      waits,
      report,
      times,
      clock,
    }),
    waitForClaim: createWaitForClaim({ backend, assignments, waits, times, clock }),
    event: (event, assignment, retryDelayMs) => {
      const delay = retryDelayMs === undefined ? {} : { retry_delay: retryDelayMs / 1000 };
      log.info({ event, backend: kind, assignment, ...delay }, "assignment transition");
    },
    identityBound: (id, executor) => {
      const record = assignments.get(id)?.record;
      if (record !== undefined && currentAttempt(record) !== undefined)
        executorEvent("identity_bound", record, executor.name);
    },
    onUnknownKey: (id) => {
      options.onUnknownKey(kind, id);
    },
    report,
    times,
    clock,
  });
  const worker = createWorker({ kind, queue, slots, assignments, process, report, times, clock });
  const speaker = createKeepAlive({
    kind,
    assignments,
    beat: gitea.beat,
    report,
    times,
    clock,
    random,
  });
  return {
    work: (signal) => worker.run(signal),
    tellWaiting: (signal) => rows.run(signal),
    keepAlive: (signal) => speaker.run(signal),
    circuit: () => circuit.state(),
  };
}
