import type { BackendKind } from "../assignment/backend-kind.ts";
import type { Failure } from "../assignment/failure.ts";
import { currentAttempt, type AssignmentRecord } from "../assignment/record.ts";
import type { Times } from "../assignment/times.ts";
import type { Backend } from "../backends/backend.ts";
import type { Random } from "../platform/backoff.ts";
import type { Clock } from "../platform/clock.ts";
import { createLogLimit } from "../platform/log-limit.ts";
import type { Logger } from "../platform/logger.ts";
import { createAttemptHistory } from "./attempt-history.ts";
import { type CircuitState, createCircuit } from "./circuit.ts";
import { createEnsureExecutor, type EnsureExecutorOptions, type ExecutorEvent } from "./ensure-executor.ts";
import type { HeldAssignment } from "./from-memory.ts";
import { createKeepAlive, type KeepAliveOptions } from "./keep-alive.ts";
import { createProcessDelivery, type ProcessDeliveryOptions, type QueueEvent } from "./process-delivery.ts";
import { createWaitForClaim } from "./wait-for-claim.ts";
import { createWaitingRows, type WaitingRowsOptions } from "./waiting-rows.ts";
import { createWorker, type WorkerOptions, type WorkerQueue } from "./worker.ts";

/** Something that was done for an assignment. */
export type WorkerEvent = {
  readonly event: QueueEvent | ExecutorEvent;
  readonly assignment: string;
  /** The executor's name, where there is one. */
  readonly executor?: string;
};

export type BackendWorkerOptions = {
  readonly backend: Backend;
  /** The backend's own limit for an executor. */
  readonly timeoutMs: number;
  readonly slots: ProcessDeliveryOptions["slots"] & WorkerOptions["slots"] & EnsureExecutorOptions["slots"];
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
  readonly onUnreadable: ProcessDeliveryOptions["onUnreadable"];
  /** Hears what is logged as a transition; must not throw. */
  readonly onEvent?: (event: WorkerEvent) => void;
  /** The circuit has opened for this reason, or closed; must not throw. */
  readonly onCircuit?: (failure: Failure | undefined) => void;
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

/** Beats that fail are told once in this time, with how many more there were. */
const beatErrorsMs = 60_000;

export function createBackendWorker(options: BackendWorkerOptions): BackendWorker {
  const { backend, slots, assignments, queue, gitea, times, clock, random } = options;
  const { kind } = backend;
  const log = options.log.child({ component: "worker" });
  const report = (assignment: string | undefined, error: string) => {
    log.error({ backend: kind, assignment, error }, "assignment processing error");
  };
  const beatErrors = createLogLimit({ everyMs: beatErrorsMs, maxKeys: 1 }, clock);
  /** While Gitea is away every task's beat fails, all the time. */
  const reportBeat = (assignment: string | undefined, error: string) => {
    const due = beatErrors.due("");
    if (due !== undefined)
      log.error({ backend: kind, assignment, error, leftOut: due.leftOut }, "assignment processing error");
  };
  const executorEvent = (
    event: ExecutorEvent,
    { phase, assignment: { id: assignment } }: AssignmentRecord,
    executor?: string,
  ) => {
    log.info({ event, backend: kind, assignment, executor, phase: phase.name }, "executor transition");
    options.onEvent?.({ event, assignment, ...(executor === undefined ? {} : { executor }) });
  };
  const circuit = createCircuit(clock, times, (failure) => {
    const why = failure === undefined ? {} : { reason: failure.reason, evidence: failure.evidence };
    log.warn({ backend: kind, open: failure !== undefined, ...why }, "circuit transition");
    options.onCircuit?.(failure);
  });
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
      slots,
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
      options.onEvent?.({ event, assignment });
    },
    identityBound: (id, executor) => {
      const record = assignments.get(id)?.record;
      if (record !== undefined && currentAttempt(record) !== undefined)
        executorEvent("identity_bound", record, executor.name);
    },
    onUnknownKey: (id) => {
      options.onUnknownKey(kind, id);
    },
    onUnreadable: options.onUnreadable,
    report,
    times,
    clock,
  });
  const worker = createWorker({ kind, queue, slots, assignments, process, report, times, clock });
  const speaker = createKeepAlive({
    kind,
    assignments,
    beat: gitea.beat,
    report: reportBeat,
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
