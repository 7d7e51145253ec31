import { taskIdOf } from "./assignment/assignment.ts";
import { backendKinds } from "./assignment/backend-kind.ts";
import { executorEnvironment } from "./assignment/executor-environment.ts";
import { executorName } from "./assignment/executor-metadata.ts";
import { failureFor, failureRows } from "./assignment/failure.ts";
import { currentAttempt, phaseNames, type AssignmentRecord } from "./assignment/record.ts";
import { createLane, type Lane } from "./backend-lane.ts";
import type { ExecutorRequest } from "./backends/backend.ts";
import { createCounts, stateOf } from "./core-figures.ts";
import { giteaCalls, tellingAnswers } from "./core-gitea.ts";
import type { CorePorts, CoreSettings } from "./core-ports.ts";
import { putSchedulerTogether } from "./core-scheduler.ts";
import type { FacadeHandlerOptions } from "./facade/handler.ts";
import { createRefusalLog, type RefusedConnection } from "./facade/refusal-log.ts";
import { backendChecks, unservedChecks } from "./health/backend-checks.ts";
import type { Check } from "./health/health-server.ts";
import type { MetricSources } from "./health/metrics.ts";
import { createNoticeRecords } from "./health/notice-records.ts";
import { noticeRefusedCall, noticeUnknownKey } from "./health/notice-troubles.ts";
import { signCapability } from "./identity/capability.ts";
import { createAssignments, type Assignments } from "./lifecycle/assignments.ts";
import { createCompareRecords } from "./lifecycle/compare-records.ts";
import { createCompareStream } from "./lifecycle/compare-stream.ts";
import { createEnds } from "./lifecycle/deliver-ends.ts";
import { createHearing } from "./lifecycle/hearing.ts";
import { recover } from "./lifecycle/recover.ts";
import { createRegistration } from "./lifecycle/registration.ts";
import { createSealedMessages, type SealedMessage } from "./lifecycle/sealed-messages.ts";
import { isOutage } from "./outage.ts";
import { createKeyedQueue } from "./platform/keyed-queue.ts";
import { persist } from "./platform/persist.ts";
import type { Task } from "./platform/task-group.ts";
import { backendOfLeader, guardedGitea, queueOfLeader } from "./only-leader.ts";
import { eventOfChange } from "./tell-change.ts";
import { createTellWork } from "./tell-work.ts";

/**
 * A task that ends when this process leads no more. `serving` is aborted when it is to do nothing for anybody any more:
 * until then a task that Gitea has handed out is tried to be stored.
 */
export type LeaderTask = {
  readonly name: string;
  run(leading: AbortSignal, serving?: AbortSignal): Promise<void>;
};

/** The controller without its connections and servers. */
export type Core = {
  /**
   * Restores what an earlier controller knew, through outages of whatever length. To be done before the facade
   * serves and any task runs.
   */
  recover(signal: AbortSignal): Promise<void>;
  readonly assignments: Assignments;
  readonly lanes: readonly Lane[];
  /** What the facade's handler, or the bare RunnerService, is made of, but for the connections. */
  readonly facade: Omit<FacadeHandlerOptions, "peerOf" | "endSoon">;
  readonly onRefusedConnection: (refused: RefusedConnection) => void;
  /** For one controller at a time: they fetch, create, delete and give verdicts. They run until they are aborted. */
  readonly leaderTasks: readonly LeaderTask[];
  /** What goes on beside the facade until another controller leads: they speak for unclaimed tasks. */
  readonly relayTasks: readonly Task[];
  /** Each loop makes progress. */
  readonly alive: readonly Check[];
  /** Nothing is wrong with a backend that an operator should look at. */
  readonly well: readonly Check[];
  readonly figures: Pick<MetricSources, "backends" | "phases" | "failures" | "lostAttempts" | "lostFetches">;
};

/** Puts the controller's parts together. It does nothing by itself, and all that it does goes through the ports. */
export function createCore(settings: CoreSettings, ports: CorePorts): Core {
  const {
    records,
    reports,
    troubles,
    clock,
    random,
    mustLead = () => undefined,
    mayServe = () => undefined,
  } = ports;
  const queue = queueOfLeader(ports.queue, mustLead);
  const backends = ports.backends.map((one) => ({
    ...one,
    backend: backendOfLeader(one.backend, mustLead),
  }));
  const { keyRing, times } = settings;
  const lifecycleLog = ports.log.child({ component: "lifecycle" });
  const counts = createCounts();
  const assignments = createAssignments({
    store: {
      create: (record, signal) => records.create(record, signal),
      update: (record, revision, signal) => records.update(record, revision, signal),
      remove: async (id, signal) => void (await records.remove(id, undefined, signal)),
    },
    clock,
    mustLead,
    onChange: (change) => {
      const told = eventOfChange(change);
      ports.events.publish(told);
      counts.change(told);
      if (change.event === "forgotten") tellWork.forget(change.after.assignment.id);
    },
  });
  const tellWork = createTellWork({
    assignments,
    publish: (event) => {
      ports.events.publish(event);
    },
  });
  const registration = createRegistration(clock);
  const watchedGitea = tellingAnswers(ports.gitea, (fault) => {
    registration.answered(fault);
  });
  const gitea = giteaCalls({ gitea: watchedGitea, clock });
  const relayed = giteaCalls({ gitea: guardedGitea(watchedGitea, mayServe), clock });
  const asLeader = giteaCalls({ gitea: guardedGitea(watchedGitea, mustLead), clock });
  const logLanes = createKeyedQueue();
  /** A message that can never be read, of a task that nobody else speaks for. */
  const onUnreadable = async (
    { assignmentId, reason }: { readonly assignmentId: string; readonly reason: string },
    signal: AbortSignal,
  ) => {
    const taskId = taskIdOf(assignmentId);
    if (taskId === undefined || (await gitea.beat(taskId, signal)) !== "running") return;
    const failure = failureFor("queue_lost", `its message cannot be read: ${reason}`);
    await asLeader.reportEnd({ taskId, result: "failure", reason: failureRows(failure), steps: [] }, signal);
    counts.failed(failure);
    lifecycleLog.error({ assignment: assignmentId, reason }, "task failed, its message cannot be read");
  };
  const { canHear = () => true } = ports;
  const hearing = createHearing({ clock, canHear });
  const lanes = backends.map(({ backend, capacity, timeoutMs }) =>
    createLane({
      backend,
      capacity,
      timeoutMs,
      assignments,
      queue,
      // A beat is for whoever holds the task, rows are for a leader.
      gitea: { ...asLeader, beat: gitea.beat },
      logLanes,
      hearing,
      registration,
      removeReports: async (id, signal) => {
        mustLead();
        await reports.remove(id, signal);
      },
      executorRequest: (record) => executorRequest(settings, record),
      newNonce: ports.newNonce,
      onUnknownKey: (_kind, id) => {
        noticeUnknownKey(troubles, id);
      },
      onUnreadable,
      onEvent: (event) => {
        tellWork.worker(backend.kind, event);
      },
      onCircuit: (failure) => {
        tellWork.circuit(backend.kind, failure);
      },
      onExecutor: (deed) => {
        tellWork.executor(backend.kind, deed);
      },
      times,
      clock,
      random,
      log: ports.log,
    }),
  );
  const markTerminal = async ({ assignment, phase }: AssignmentRecord, signal: AbortSignal) => {
    if (phase.name !== "finished" || phase.attempt === undefined) return;
    const lane = lanes.find(({ kind }) => kind === assignment.backend);
    await lane?.backend.markTerminal(executorName(assignment, phase.attempt), signal);
  };
  const ends = createEnds({
    assignments,
    reports,
    sendReport: gitea.sendReport,
    reportEnd: asLeader.reportEnd,
    commandFor: (kind, executor, reason) =>
      lanes.find((lane) => lane.kind === kind)?.backend.commandFor?.(executor, reason),
    logLanes,
    markTerminal,
    times,
    clock,
    random,
    log: lifecycleLog,
  });
  const sealed = createSealedMessages({
    queue,
    onSealed: (id) => {
      noticeUnknownKey(troubles, id);
    },
    times,
    clock,
    log: lifecycleLog,
  });
  const onSealed = (message: SealedMessage) => {
    sealed.found(message);
  };
  const compareStream = createCompareStream({
    queue,
    assignments,
    onSealed,
    times,
    clock,
    log: lifecycleLog,
  });
  const noticeRecords = createNoticeRecords({
    board: troubles,
    lastsMs: 3 * times.compareStreamMs,
    log: lifecycleLog,
  });
  const listedRecords = {
    list: async (signal: AbortSignal) => {
      const listed = await records.list(signal);
      noticeRecords(listed);
      return listed;
    },
  };
  const compareRecords = createCompareRecords({
    records: listedRecords,
    assignments,
    times,
    clock,
    log: lifecycleLog,
  });
  const scheduler = putSchedulerTogether({
    settings,
    ports: { ...ports, gitea: watchedGitea },
    assignments,
    lanes,
    gitea,
    counts,
    mustLead,
  });

  const facadeLog = ports.log.child({ component: "facade" });
  const refusals = createRefusalLog({ log: facadeLog, clock, count: ports.countRefusal });
  let recoveredAt: number | undefined;
  const recoverOnce = async (signal: AbortSignal) => {
    const log = lifecycleLog;
    const around = { records: listedRecords, backends: lanes, queue, assignments };
    const recovered = await recover({ ...around, onUnreadable, onSealed, times, clock, log }, signal);
    compareStream.scanned(recovered.scannedTo);
    const isKept = (id: string, key: string) => {
      // Another leader may have stored one of which nobody here knows.
      mustLead();
      return recovered.unreadable.has(id) || isNamed(assignments, id, key);
    };
    await reports.sweep(isKept, signal);
    recoveredAt = clock.now();
    tellUnserved();
  };
  const unserved = backendKinds.filter((kind) => lanes.every((lane) => lane.kind !== kind));
  const liveOf = (kind: string) =>
    assignments.all().filter(({ record }) => record.assignment.backend === kind).length;
  const tellUnserved = () => {
    for (const backend of unserved) {
      const live = liveOf(backend);
      if (live > 0)
        lifecycleLog.warn({ backend, live }, "assignments of a backend that COMPONENTS does not select");
    }
  };
  const backendStates = () =>
    lanes.map((lane, index) => stateOf(lane, backends[index], recoveredAt, clock.now()));
  return {
    recover: (signal) =>
      persist(
        recoverOnce,
        { doing: "recovering", passing: isOutage, clock, random, log: lifecycleLog },
        signal,
      ),
    assignments,
    lanes,
    facade: {
      keyRing,
      assignments,
      gitea: relayed,
      reports,
      ends,
      hearing,
      logLanes,
      readTask: ports.decompress,
      markTerminal,
      onRefused: (call) => {
        refusals.call(call);
        noticeRefusedCall(troubles, call);
      },
      clock,
      log: facadeLog,
    },
    onRefusedConnection: refusals.connection,
    leaderTasks: [
      { name: "scheduler", run: (leading, serving) => scheduler.run(leading, serving) },
      ...lanes.flatMap(({ leaderTasks }) => leaderTasks),
      { name: "ends", run: (signal) => ends.run(signal) },
      { name: "stream comparison", run: (signal) => compareStream.run(signal) },
      { name: "record comparison", run: (signal) => compareRecords.run(signal) },
      { name: "sealed messages", run: (signal) => sealed.run(signal) },
      ...backends.map(({ backend, run }) => ({ name: `${backend.kind} backend`, run })),
    ],
    relayTasks: lanes.flatMap(({ relayTasks }) => relayTasks),
    alive: lanes.map(({ kind, reconciler }) => ({
      name: `${kind} reconciler`,
      problem: () => overdue(reconciler.passedAt(), clock.now()),
    })),
    well: [
      ...backendChecks(
        lanes.map(({ kind }) => kind),
        backendStates,
      ),
      ...unservedChecks(unserved, liveOf),
    ],
    figures: {
      ...counts.figures,
      backends: backendStates,
      phases: () => {
        const phases = assignments.all().map(({ record }) => record.phase.name);
        return Object.fromEntries(
          phaseNames.map((name) => [name, phases.filter((one) => one === name).length]),
        );
      },
    },
  };
}

/** Whether a record names this stored report. */
function isNamed(assignments: Assignments, id: string, key: string): boolean {
  const phase = assignments.get(id)?.record.phase;
  return phase?.name === "ending" && phase.end.by === "executor" && phase.end.report.key === key;
}

/** What the executor of the record's current attempt is told and labelled with. */
function executorRequest(
  { owner, keyRing, facade }: CoreSettings,
  record: AssignmentRecord,
): Omit<ExecutorRequest, "deadlineAt"> {
  const { assignment } = record;
  const attempt = currentAttempt(record);
  if (attempt === undefined) throw new Error(`${assignment.id} has no attempt`);
  const claims = { assignmentId: assignment.id, spiffeId: assignment.spiffeId, attempt };
  return {
    metadata: { owner, assignment, attempt, terminal: false },
    environment: executorEnvironment(assignment, signCapability(keyRing, claims), facade),
  };
}

/** A loop that has not come round for this long hangs. */
const overdueMs = 5 * 60_000;

function overdue(passedAt: number | undefined, now: number): string | undefined {
  if (passedAt === undefined || now - passedAt < overdueMs) return undefined;
  return `no pass for ${Math.round((now - passedAt) / 1000)} s`;
}
