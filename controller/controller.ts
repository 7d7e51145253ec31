import { randomBytes, randomUUID } from "node:crypto";
import { executorEnvironment } from "./assignment/executor-environment.ts";
import { executorName } from "./assignment/executor-metadata.ts";
import { currentAttempt, phaseNames, type AssignmentRecord } from "./assignment/record.ts";
import { declaredLabels, offeredRunsOn } from "./assignment/requirements.ts";
import { defaultTimes as times } from "./assignment/times.ts";
import { createLane, type Lane, type LaneOptions } from "./backend-lane.ts";
import type { ExecutorRequest } from "./backends/backend.ts";
import type { Config } from "./config.ts";
import { createFacadeHandler } from "./facade/handler.ts";
import { createRefusalLog } from "./facade/refusal-log.ts";
import { callRefusals } from "./facade/refusal.ts";
import { beat } from "./gitea/beat.ts";
import { reportEnd, storedRows } from "./gitea/report-end.ts";
import { createRunnerClient } from "./gitea/runner-client.ts";
import { serveHealth } from "./health/health-server.ts";
import { createMetrics } from "./health/metrics.ts";
import { noticeAnswer, noticeRefusedCall } from "./health/notice-troubles.ts";
import { countTroubles, createTroubleBoard, troubleChecks } from "./health/troubles.ts";
import { signCapability } from "./identity/capability.ts";
import { createAssignments } from "./lifecycle/assignments.ts";
import { lockFolder } from "./lifecycle/controller-lock.ts";
import { recover } from "./lifecycle/recover.ts";
import { openBackends } from "./open-backends.ts";
import { openOwnIdentity } from "./own-identity.ts";
import type { Random } from "./platform/backoff.ts";
import type { Clock } from "./platform/clock.ts";
import type { Logger } from "./platform/logger.ts";
import { connectNats } from "./platform/nats-connection.ts";
import { persist } from "./platform/persist.ts";
import { runTasks } from "./platform/task-group.ts";
import { compressTask, decompressTask } from "./protocol/compressed-task.ts";
import { readTask } from "./protocol/read-task.ts";
import { createAssignmentQueue } from "./queue/assignment-queue.ts";
import { QueueUnavailableError } from "./queue/errors.ts";
import { createStreams, waitForStreams } from "./queue/prepare-streams.ts";
import { stateBucket, wantedStreams } from "./queue/streams.ts";
import { RecordStoreUnavailableError } from "./record/errors.ts";
import { createRecordStore } from "./record/record-store.ts";
import { createHeldUp } from "./scheduler/held-up.ts";
import { createScheduler } from "./scheduler/scheduler.ts";
import { createTakeTask } from "./scheduler/take-task.ts";
import { peerRefusals } from "./spiffe/refused-peer.ts";
import { defaultTlsLimits } from "./spiffe/tls-limits.ts";
import { createTlsServer, type TlsServer } from "./spiffe/tls-server.ts";
import { version } from "./version.ts";

export type ControllerDependencies = {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
};

/**
 * The whole controller: connects, recovers, serves executors and takes tasks until the signal is aborted. Then
 * fetching stops, deliveries are handed back, the facade closes last; running jobs go on. Rejects with what made
 * it end; outages of its peers are waited for instead.
 */
export async function runController(
  config: Config,
  { clock, random, log }: ControllerDependencies,
  signal: AbortSignal,
): Promise<void> {
  await using stack = new AsyncDisposableStack();
  if (config.local !== undefined) stack.use(await lockFolder(config.local.folder, clock, log, signal));

  const { stream, subjectBase, caFile, ...server } = config.nats;
  const connection = await connectNats(
    { ...server, ...(caFile === undefined ? {} : { caFile }), clock, log: log.child({ component: "queue" }) },
    signal,
  );
  stack.defer(() => connection.close());
  const capacity = { pod: 1, vm: 1 };
  for (const backend of config.backends) capacity[backend.kind] = backend.capacity;
  const wanted = wantedStreams({ stream, subjectBase, capacity });
  // Elsewhere Pulumi makes them.
  const outages = { passing: isOutage, clock, random, log: log.child({ component: "lifecycle" }) };
  if (config.local !== undefined)
    await persist(
      (abort) => createStreams(connection, wanted, abort),
      { doing: "making streams", ...outages },
      signal,
    );
  await waitForStreams({ link: connection, wanted, clock, log: log.child({ component: "queue" }) }, signal);

  const source = stack.use(await openOwnIdentity(config, { clock, random, log }, signal));
  const troubles = createTroubleBoard(clock);
  let giteaAnsweredAt: number | undefined;
  const gitea = createRunnerClient({
    ...config.gitea,
    version,
    onAnswer: (fault) => {
      giteaAnsweredAt = clock.now();
      noticeAnswer(troubles, fault);
    },
  });
  stack.defer(() => {
    gitea.close();
  });
  const { trustDomain, allowForksOnPods, keyRing, facade } = config;
  const read = (task: Parameters<typeof readTask>[1]) => readTask({ trustDomain, allowForksOnPods }, task);
  const queue = createAssignmentQueue({
    connection,
    keyRing,
    stream,
    subjectBase,
    assignmentOf: async (compressed) => {
      const reading = read(await decompressTask(compressed));
      if (!reading.ok) throw new Error(reading.reason);
      return reading.assignment;
    },
    randomBytes,
    clock,
  });
  const records = createRecordStore({
    connection,
    bucket: stateBucket(stream),
    writerId: randomUUID(),
    log: log.child({ component: "record" }),
  });
  const assignments = createAssignments({
    ...records,
    remove: async (id, abort) => void (await records.remove(id, undefined, abort)),
  });
  const end: LaneOptions["reportEnd"] = ({ assignment, record }, result, reason, abort) =>
    reportEnd(
      gitea,
      { taskId: assignment.taskId, result, reason, steps: record?.steps ?? [] },
      clock.now(),
      abort,
    );

  const executorRequest = (record: AssignmentRecord): ExecutorRequest => {
    const { assignment } = record;
    const attempt = currentAttempt(record);
    if (attempt === undefined) throw new Error(`${assignment.id} has no attempt`);
    const claims = { assignmentId: assignment.id, spiffeId: assignment.spiffeId, attempt };
    return {
      metadata: { owner: config.gitea.uuid, assignment, attempt, terminal: false },
      environment: executorEnvironment(assignment, signCapability(keyRing, claims), facade),
    };
  };
  const opened = await openBackends(config, { clock, random, log: log.child({ component: "backend" }) });
  const lanes: readonly Lane[] = opened.map(({ backend, capacity: slots }) =>
    createLane({
      backend,
      capacity: slots,
      assignments,
      queue,
      beat: (taskId, abort) => beat(gitea, taskId, abort),
      reportEnd: end,
      executorRequest,
      newNonce: () => randomBytes(16).toString("hex"),
      times,
      clock,
      log,
    }),
  );
  const lost = { records, backends: lanes, queue, assignments, log: outages.log };
  await persist((abort) => recover(lost, abort), { doing: "recovering", ...outages }, signal);

  const facadeLog = log.child({ component: "facade" });
  const metrics = createMetrics({
    refusals: [...peerRefusals, ...callRefusals],
    facadeSessions: () => tls.sessions(),
    slots: () =>
      lanes.map(({ backend, slots }, index) => ({
        backend: backend.kind,
        used: slots.held().length,
        capacity: opened[index]?.capacity ?? 0,
      })),
    phases: () => {
      const phases = assignments.all().map(({ record }) => record.phase.name);
      return Object.fromEntries(
        phaseNames.map((name) => [name, phases.filter((one) => one === name).length]),
      );
    },
    troubles: () => countTroubles(troubles),
    giteaSilenceSeconds: () =>
      giteaAnsweredAt === undefined ? undefined : (clock.now() - giteaAnsweredAt) / 1000,
  });
  const refusals = createRefusalLog({ log: facadeLog, clock, count: (kind) => metrics.callerRefused(kind) });
  const places = opened.reduce((sum, { capacity: slots }) => sum + slots, 0);
  const tls: TlsServer = stack.use(
    createTlsServer({
      source,
      clock,
      onRefused: refusals.connection,
      limits: sessionLimits(places),
    }),
  );
  tls.server.on(
    "request",
    createFacadeHandler({
      keyRing,
      peerOf: (session) => tls.peerOf(session),
      endSoon: (session) => {
        tls.endSoon(session);
      },
      onRefused: (call) => {
        refusals.call(call);
        noticeRefusedCall(troubles, call);
      },
      assignments,
      gitea: {
        updateTask: (request, abort) => gitea.updateTask(request, abort),
        updateLog: (request, abort) => gitea.updateLog(request, abort),
        storedRows: async (taskId, abort) => Number(await storedRows(gitea, taskId, abort)),
      },
      readTask: decompressTask,
      markTerminal: async ({ assignment, phase }, abort) => {
        if (phase.name !== "finished" || phase.attempt === undefined) return;
        const lane = lanes.find(({ backend }) => backend.kind === assignment.backend);
        await lane?.backend.markTerminal(executorName(assignment, phase.attempt), abort);
      },
      clock,
      log: facadeLog,
    }),
  );
  const { host, port } = facade.listen;
  await tls.listen({ port, ...(host === undefined ? {} : { host }) });
  facadeLog.info({ port, spiffeId: facade.spiffeId }, "facade listens");

  const kinds = config.backends.map(({ kind }) => kind);
  const schedulerLog = log.child({ component: "scheduler" });
  const heldUp = createHeldUp();
  const scheduler = createScheduler({
    gitea,
    take: createTakeTask({
      read,
      offered: offeredRunsOn(kinds, config.vmLabel),
      compress: compressTask,
      publish: (task, abort) => queue.publish(task, abort),
      offer: (task, abort) => assignments.offer(task, abort),
      fail: (taskId, reason, abort) =>
        reportEnd(gitea, { taskId, result: "failure", reason, steps: [] }, clock.now(), abort),
      beat: (taskId, abort) => beat(gitea, taskId, abort),
      heldUp,
      clock,
      random,
      log: schedulerLog,
    }),
    heldUp,
    labelsFor: (open) => declaredLabels(open, config.vmLabel),
    loads: () =>
      lanes.map((lane, index) => ({ ...lane.load(), backlog: config.backends[index]?.backlog ?? 0 })),
    loadsChanged: (abort) => assignments.changed(abort),
    capacity: config.backends.reduce((sum, backend) => sum + backend.capacity, 0),
    clock,
    random,
    log: schedulerLog,
  });
  for (const { slots } of lanes)
    slots.onChange(() => {
      scheduler.lookAgain();
    });

  stack.use(
    await serveHealth({
      alive: lanes.map(({ backend, reconciler }) => ({
        name: `${backend.kind} reconciler`,
        problem: () => overdue(reconciler.passedAt(), clock.now()),
      })),
      well: troubleChecks(troubles),
      ready: [{ name: "svid", problem: () => problemOf(() => source.current()) }],
      metrics: () => metrics.render(),
      listen: config.healthListen,
    }),
  );
  log.info({ component: "main", backends: kinds, version }, "runner started");
  await runTasks(
    [
      { name: "scheduler", run: (abort) => scheduler.run(abort) },
      ...lanes.flatMap(({ tasks }) => tasks),
      ...opened.map(({ backend, run }) => ({ name: `${backend.kind} backend`, run })),
    ],
    signal,
  );
}

/** All executors may be of one job, and each may dial anew a few times before its old sessions are gone. */
function sessionLimits(places: number) {
  return {
    sessions: Math.max(defaultTlsLimits.sessions, 16 * places),
    sessionsPerPeer: Math.max(defaultTlsLimits.sessionsPerPeer, 4 * places),
    connections: Math.max(defaultTlsLimits.connections, 32 * places),
  };
}

/** A loop that has not come round for this long hangs. */
const overdueMs = 5 * 60_000;

function overdue(passedAt: number | undefined, now: number): string | undefined {
  if (passedAt === undefined || now - passedAt < overdueMs) return undefined;
  return `no pass for ${Math.round((now - passedAt) / 1000)} s`;
}

function problemOf(check: () => unknown): string | undefined {
  try {
    check();
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : "unknown error";
  }
}

function isOutage(error: unknown): boolean {
  return error instanceof QueueUnavailableError || error instanceof RecordStoreUnavailableError;
}
