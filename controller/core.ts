import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { LogRowSchema } from "../proto/gen/runner/v1/runner_pb.ts";
import { taskIdOf } from "./assignment/assignment.ts";
import { executorEnvironment } from "./assignment/executor-environment.ts";
import { executorName } from "./assignment/executor-metadata.ts";
import { failureFor, failureRows } from "./assignment/failure.ts";
import { currentAttempt, phaseNames, type AssignmentRecord } from "./assignment/record.ts";
import { declaredLabels, offeredRunsOn } from "./assignment/requirements.ts";
import { createLane, type Lane } from "./backend-lane.ts";
import type { ExecutorRequest } from "./backends/backend.ts";
import type { CorePorts, CoreSettings } from "./core-ports.ts";
import type { FacadeHandlerOptions } from "./facade/handler.ts";
import { createRefusalLog, type RefusedConnection } from "./facade/refusal-log.ts";
import { beat } from "./gitea/beat.ts";
import { createReportEnd, storedRows } from "./gitea/report-end.ts";
import { sendReport } from "./gitea/send-report.ts";
import type { Check } from "./health/health-server.ts";
import type { MetricSources } from "./health/metrics.ts";
import { noticeRefusedCall, noticeUnknownKey } from "./health/notice-troubles.ts";
import { countTroubles } from "./health/troubles.ts";
import { signCapability } from "./identity/capability.ts";
import { createAssignments, type Assignments } from "./lifecycle/assignments.ts";
import { createCompareRecords } from "./lifecycle/compare-records.ts";
import { createCompareStream } from "./lifecycle/compare-stream.ts";
import { createEnds } from "./lifecycle/deliver-ends.ts";
import { createHearing } from "./lifecycle/hearing.ts";
import { recover } from "./lifecycle/recover.ts";
import { isOutage } from "./outage.ts";
import { createKeyedQueue } from "./platform/keyed-queue.ts";
import { persist } from "./platform/persist.ts";
import type { Task } from "./platform/task-group.ts";
import { createHeldUp } from "./scheduler/held-up.ts";
import { createScheduler } from "./scheduler/scheduler.ts";
import { createTakeTask } from "./scheduler/take-task.ts";
import { eventOfChange } from "./tell-change.ts";

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
  readonly leaderTasks: readonly Task[];
  /** What goes on beside the facade until another controller leads: they speak for unclaimed tasks. */
  readonly relayTasks: readonly Task[];
  /** Each loop makes progress. */
  readonly alive: readonly Check[];
  readonly figures: Pick<MetricSources, "slots" | "phases" | "troubles">;
};

/** Puts the controller's parts together. It does nothing by itself, and all that it does goes through the ports. */
export function createCore(settings: CoreSettings, ports: CorePorts): Core {
  const { queue, records, reports, backends, troubles, clock, random } = ports;
  const { keyRing, times } = settings;
  const lifecycleLog = ports.log.child({ component: "lifecycle" });
  const assignments = createAssignments({
    store: {
      create: (record, signal) => records.create(record, signal),
      update: (record, revision, signal) => records.update(record, revision, signal),
      remove: async (id, signal) => void (await records.remove(id, undefined, signal)),
    },
    clock,
    onChange: (change) => {
      ports.events.publish(eventOfChange(change));
    },
  });
  const gitea = giteaCalls(ports);
  const logLanes = createKeyedQueue();
  const hearing = createHearing({ clock });
  const lanes = backends.map(({ backend, capacity, timeoutMs }) =>
    createLane({
      backend,
      capacity,
      timeoutMs,
      assignments,
      queue,
      gitea,
      logLanes,
      hearing,
      removeReports: (id, signal) => reports.remove(id, signal),
      executorRequest: (record) => executorRequest(settings, record),
      newNonce: ports.newNonce,
      onUnknownKey: (_kind, id) => {
        noticeUnknownKey(troubles, id);
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
    reportEnd: gitea.reportEnd,
    logLanes,
    markTerminal,
    times,
    clock,
    random,
    log: lifecycleLog,
  });
  const compareStream = createCompareStream({ queue, assignments, times, clock, log: lifecycleLog });
  const compareRecords = createCompareRecords({ records, assignments, times, clock, log: lifecycleLog });
  const scheduler = putSchedulerTogether({ settings, ports, assignments, lanes, gitea });

  const facadeLog = ports.log.child({ component: "facade" });
  const refusals = createRefusalLog({ log: facadeLog, clock, count: ports.countRefusal });
  /** A message that can never be read, of a task that nobody else speaks for. */
  const onUnreadable = async (
    { assignmentId, reason }: { readonly assignmentId: string; readonly reason: string },
    signal: AbortSignal,
  ) => {
    const taskId = taskIdOf(assignmentId);
    if (taskId === undefined || (await gitea.beat(taskId, signal)) !== "running") return;
    const failure = failureFor("queue_lost", `its message cannot be read: ${reason}`);
    await gitea.reportEnd({ taskId, result: "failure", reason: failureRows(failure), steps: [] }, signal);
    lifecycleLog.error({ assignment: assignmentId, reason }, "task failed, its message cannot be read");
  };
  const recoverOnce = async (signal: AbortSignal) => {
    const log = lifecycleLog;
    const recovered = await recover(
      { records, backends: lanes, queue, assignments, onUnreadable, times, clock, log },
      signal,
    );
    compareStream.scanned(recovered.scannedTo);
    const isKept = (id: string, key: string) => recovered.unreadable.has(id) || isNamed(assignments, id, key);
    await reports.sweep(isKept, signal);
  };
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
      gitea,
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
      { name: "scheduler", run: (signal) => scheduler.run(signal) },
      ...lanes.flatMap(({ leaderTasks }) => leaderTasks),
      { name: "ends", run: (signal) => ends.run(signal) },
      { name: "stream comparison", run: (signal) => compareStream.run(signal) },
      { name: "record comparison", run: (signal) => compareRecords.run(signal) },
      ...backends.map(({ backend, run }) => ({ name: `${backend.kind} backend`, run })),
    ],
    relayTasks: lanes.flatMap(({ relayTasks }) => relayTasks),
    alive: lanes.map(({ kind, reconciler }) => ({
      name: `${kind} reconciler`,
      problem: () => overdue(reconciler.passedAt(), clock.now()),
    })),
    figures: {
      slots: () =>
        lanes.map(({ kind, slots }, index) => ({
          backend: kind,
          used: slots.held().length,
          capacity: backends[index]?.capacity ?? 0,
        })),
      phases: () => {
        const phases = assignments.all().map(({ record }) => record.phase.name);
        return Object.fromEntries(
          phaseNames.map((name) => [name, phases.filter((one) => one === name).length]),
        );
      },
      troubles: () => countTroubles(troubles),
    },
  };
}

type GiteaCalls = ReturnType<typeof giteaCalls>;

/** What the parts ask of Gitea, in their words. */
function giteaCalls({ gitea, clock }: CorePorts) {
  const reportEnd = createReportEnd({ gitea, clock });
  return {
    beat: (taskId: bigint, signal: AbortSignal) => beat(gitea, taskId, signal),
    updateTask: ((request, signal) =>
      gitea.updateTask(request, signal)) satisfies CorePorts["gitea"]["updateTask"],
    updateLog: ((request, signal) =>
      gitea.updateLog(request, signal)) satisfies CorePorts["gitea"]["updateLog"],
    storedRows: async (taskId: bigint, signal: AbortSignal) =>
      Number(await storedRows(gitea, taskId, signal)),
    appendRow: (taskId: bigint, index: number, content: string, signal: AbortSignal) => {
      const row = create(LogRowSchema, { time: timestampFromMs(clock.now()), content });
      return gitea.updateLog({ taskId, index: BigInt(index), rows: [row] }, signal);
    },
    sendReport: (report: Parameters<typeof sendReport>[1], signal: AbortSignal) =>
      sendReport(gitea, report, signal),
    reportEnd,
  };
}

function putSchedulerTogether({
  settings: { vmLabel },
  ports,
  assignments,
  lanes,
  gitea,
}: {
  readonly settings: CoreSettings;
  readonly ports: CorePorts;
  readonly assignments: Assignments;
  readonly lanes: readonly Lane[];
  readonly gitea: GiteaCalls;
}) {
  const { queue, backends, clock, random } = ports;
  const log = ports.log.child({ component: "scheduler" });
  const kinds = lanes.map(({ kind }) => kind);
  const heldUp = createHeldUp();
  const scheduler = createScheduler({
    gitea: ports.gitea,
    take: createTakeTask({
      read: ports.read,
      compress: ports.compress,
      publish: (task, signal) => queue.publish(task, signal),
      offer: (task, signal) => assignments.offer(task, signal),
      fail: (taskId, failure, signal) => {
        const offered = offeredRunsOn(kinds, vmLabel);
        const reason = failure === undefined ? [] : failureRows(failure, { offered });
        const result = failure === undefined ? "cancelled" : "failure";
        return gitea.reportEnd({ taskId, result, reason, steps: [] }, signal);
      },
      beat: gitea.beat,
      heldUp,
      clock,
      random,
      log,
    }),
    heldUp,
    labelsFor: (open) => declaredLabels(open, vmLabel),
    loads: () => lanes.map((lane, index) => ({ ...lane.load(), backlog: backends[index]?.backlog ?? 0 })),
    loadsChanged: (signal) => assignments.changed(signal),
    capacity: backends.reduce((sum, { capacity }) => sum + capacity, 0),
    clock,
    random,
    log,
  });
  for (const { slots } of lanes)
    slots.onChange(() => {
      scheduler.lookAgain();
    });
  return scheduler;
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
