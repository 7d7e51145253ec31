import { executorEnvironment } from "./assignment/executor-environment.ts";
import { executorName } from "./assignment/executor-metadata.ts";
import { currentAttempt, phaseNames, type AssignmentRecord } from "./assignment/record.ts";
import { declaredLabels, offeredRunsOn } from "./assignment/requirements.ts";
import { createLane, type Lane, type LaneOptions } from "./backend-lane.ts";
import type { ExecutorRequest } from "./backends/backend.ts";
import type { CorePorts, CoreSettings } from "./core-ports.ts";
import type { FacadeHandlerOptions } from "./facade/handler.ts";
import { createRefusalLog, type RefusedConnection } from "./facade/refusal-log.ts";
import { beat } from "./gitea/beat.ts";
import { reportEnd, storedRows } from "./gitea/report-end.ts";
import type { Check } from "./health/health-server.ts";
import type { MetricSources } from "./health/metrics.ts";
import { noticeRefusedCall } from "./health/notice-troubles.ts";
import { countTroubles } from "./health/troubles.ts";
import { signCapability } from "./identity/capability.ts";
import { createAssignments, type Assignments } from "./lifecycle/assignments.ts";
import { recover } from "./lifecycle/recover.ts";
import { isOutage } from "./outage.ts";
import { persist } from "./platform/persist.ts";
import type { Task } from "./platform/task-group.ts";
import { createHeldUp } from "./scheduler/held-up.ts";
import { createScheduler } from "./scheduler/scheduler.ts";
import { createTakeTask } from "./scheduler/take-task.ts";

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
  const { gitea, queue, records, backends, clock, random, log } = ports;
  const { keyRing, vmLabel } = settings;
  const assignments = createAssignments({
    ...records,
    remove: async (id, signal) => void (await records.remove(id, undefined, signal)),
  });
  const beatOnce: LaneOptions["beat"] = (taskId, signal) => beat(gitea, taskId, signal);
  const lanes = backends.map(({ backend, capacity }) =>
    createLane({
      backend,
      capacity,
      assignments,
      queue,
      beat: beatOnce,
      reportEnd: ({ assignment: { taskId }, record }, result, reason, signal) =>
        reportEnd(gitea, { taskId, result, reason, steps: record?.steps ?? [] }, clock.now(), signal),
      executorRequest: (record) => executorRequest(settings, record),
      newNonce: ports.newNonce,
      times: settings.times,
      clock,
      log,
    }),
  );

  const kinds = backends.map(({ backend }) => backend.kind);
  const schedulerLog = log.child({ component: "scheduler" });
  const heldUp = createHeldUp();
  const scheduler = createScheduler({
    gitea,
    take: createTakeTask({
      read: ports.read,
      offered: offeredRunsOn(kinds, vmLabel),
      compress: ports.compress,
      publish: (task, signal) => queue.publish(task, signal),
      offer: (task, signal) => assignments.offer(task, signal),
      fail: (taskId, reason, signal) =>
        reportEnd(gitea, { taskId, result: "failure", reason, steps: [] }, clock.now(), signal),
      beat: beatOnce,
      heldUp,
      clock,
      random,
      log: schedulerLog,
    }),
    heldUp,
    labelsFor: (open) => declaredLabels(open, vmLabel),
    loads: () => lanes.map((lane, index) => ({ ...lane.load(), backlog: backends[index]?.backlog ?? 0 })),
    loadsChanged: (signal) => assignments.changed(signal),
    capacity: backends.reduce((sum, { capacity }) => sum + capacity, 0),
    clock,
    random,
    log: schedulerLog,
  });
  for (const { slots } of lanes)
    slots.onChange(() => {
      scheduler.lookAgain();
    });

  const facadeLog = log.child({ component: "facade" });
  const refusals = createRefusalLog({ log: facadeLog, clock, count: ports.countRefusal });
  const recovering = log.child({ component: "lifecycle" });
  return {
    recover: (signal) =>
      persist(
        (abort) => recover({ records, backends: lanes, queue, assignments, log: recovering }, abort),
        { doing: "recovering", passing: isOutage, clock, random, log: recovering },
        signal,
      ),
    assignments,
    lanes,
    facade: {
      keyRing,
      assignments,
      gitea: {
        updateTask: (request, signal) => gitea.updateTask(request, signal),
        updateLog: (request, signal) => gitea.updateLog(request, signal),
        storedRows: async (taskId, signal) => Number(await storedRows(gitea, taskId, signal)),
      },
      readTask: ports.decompress,
      markTerminal: async ({ assignment, phase }, signal) => {
        if (phase.name !== "finished" || phase.attempt === undefined) return;
        const lane = lanes.find(({ backend }) => backend.kind === assignment.backend);
        await lane?.backend.markTerminal(executorName(assignment, phase.attempt), signal);
      },
      onRefused: (call) => {
        refusals.call(call);
        noticeRefusedCall(ports.troubles, call);
      },
      clock,
      log: facadeLog,
    },
    onRefusedConnection: refusals.connection,
    leaderTasks: [
      { name: "scheduler", run: (signal) => scheduler.run(signal) },
      ...lanes.flatMap(({ leaderTasks }) => leaderTasks),
      ...backends.map(({ backend, run }) => ({ name: `${backend.kind} backend`, run })),
    ],
    relayTasks: lanes.flatMap(({ relayTasks }) => relayTasks),
    alive: lanes.map(({ backend, reconciler }) => ({
      name: `${backend.kind} reconciler`,
      problem: () => overdue(reconciler.passedAt(), clock.now()),
    })),
    figures: {
      slots: () =>
        lanes.map(({ backend, slots }, index) => ({
          backend: backend.kind,
          used: slots.held().length,
          capacity: backends[index]?.capacity ?? 0,
        })),
      phases: () => {
        const phases = assignments.all().map(({ record }) => record.phase.name);
        return Object.fromEntries(
          phaseNames.map((name) => [name, phases.filter((one) => one === name).length]),
        );
      },
      troubles: () => countTroubles(ports.troubles),
    },
  };
}

/** What the executor of the record's current attempt is told and labelled with. */
function executorRequest(
  { owner, keyRing, facade }: CoreSettings,
  record: AssignmentRecord,
): ExecutorRequest {
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
