import { randomBytes, randomUUID } from "node:crypto";
import type { Config } from "./config.ts";
import { describeFailure } from "./assignment/failure.ts";
import { createCore } from "./core.ts";
import { createEventLog } from "./events/event-log.ts";
import { createFacadeHandler } from "./facade/handler.ts";
import { callRefusals } from "./facade/refusal.ts";
import { createRunnerClient } from "./gitea/runner-client.ts";
import { serveHealth } from "./health/health-server.ts";
import { createMetrics } from "./health/metrics.ts";
import { noticeAnswer } from "./health/notice-troubles.ts";
import { createTroubleBoard, troubleChecks } from "./health/troubles.ts";
import { lockFolder } from "./lifecycle/controller-lock.ts";
import { openBackends } from "./open-backends.ts";
import { isOutage } from "./outage.ts";
import { openOwnIdentity } from "./own-identity.ts";
import type { Random } from "./platform/backoff.ts";
import type { Clock } from "./platform/clock.ts";
import { createKeyValue } from "./platform/key-value.ts";
import type { Logger } from "./platform/logger.ts";
import { connectNats } from "./platform/nats-connection.ts";
import { persist } from "./platform/persist.ts";
import { runTasks } from "./platform/task-group.ts";
import { compressTask, decompressTask } from "./protocol/compressed-task.ts";
import { readTask } from "./protocol/read-task.ts";
import { createAssignmentQueue } from "./queue/assignment-queue.ts";
import { createStreams, waitForStreams } from "./queue/prepare-streams.ts";
import { eventStream, eventSubject, stateBucket, wantedStreams } from "./queue/streams.ts";
import { createRecordStore } from "./record/record-store.ts";
import { createReportStore, reportPartBytes } from "./record/report-store.ts";
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
  const wanted = wantedStreams({ stream, subjectBase, capacity, times: config.streamTimes });
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
  const svidProblem = () => problemOf(() => source.current());
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
      if (!reading.ok) throw new Error(describeFailure(reading.failure));
      return reading.assignment;
    },
    randomBytes,
    clock,
  });
  const bucket = createKeyValue({ link: connection, bucket: stateBucket(stream) });
  const instance = randomUUID();
  const recordLog = log.child({ component: "record" });
  const events = createEventLog({
    link: connection,
    stream: eventStream(stream),
    subject: (id) => eventSubject(subjectBase, id),
    controller: config.hostname,
    instance,
    clock,
    random,
    log: log.child({ component: "events" }),
  });
  // Until everything that tells of something has ended.
  const telling = new AbortController();
  const told = events.run(telling.signal);
  stack.defer(async () => {
    telling.abort(new Error("the controller ends"));
    await told;
  });
  const opened = await openBackends(config, { clock, random, log: log.child({ component: "backend" }) });
  const core = createCore(
    { owner: config.gitea.uuid, keyRing, facade, vmLabel: config.vmLabel, times: config.times },
    {
      gitea,
      queue,
      records: createRecordStore({ bucket, writerId: instance, log: recordLog }),
      reports: createReportStore({
        bucket,
        keyRing,
        randomBytes,
        partBytes: reportPartBytes(connection.nats.info?.max_payload ?? Infinity),
      }),
      events,
      backends: opened,
      read,
      compress: compressTask,
      decompress: decompressTask,
      newNonce: () => randomBytes(16).toString("hex"),
      countRefusal: (kind) => metrics.callerRefused(kind),
      // Without one no handshake with us succeeds.
      canHear: () => svidProblem() === undefined,
      troubles,
      clock,
      random,
      log,
    },
  );
  const metrics = createMetrics({
    ...core.figures,
    refusals: [...peerRefusals, ...callRefusals],
    facadeSessions: () => tls.sessions(),
    events: () => events.figures(),
    natsConnected: () => connection.connected(),
    giteaSilenceSeconds: () =>
      giteaAnsweredAt === undefined ? undefined : (clock.now() - giteaAnsweredAt) / 1000,
  });
  await core.recover(signal);

  const tls: TlsServer = stack.use(
    createTlsServer({
      source,
      clock,
      onRefused: core.onRefusedConnection,
      limits: sessionLimits(opened.reduce((sum, { capacity: slots }) => sum + slots, 0)),
    }),
  );
  tls.server.on(
    "request",
    createFacadeHandler({
      ...core.facade,
      peerOf: (session) => tls.peerOf(session),
      endSoon: (session) => {
        tls.endSoon(session);
      },
    }),
  );
  const { host, port } = facade.listen;
  await tls.listen({ port, ...(host === undefined ? {} : { host }) });
  log.child({ component: "facade" }).info({ port, spiffeId: facade.spiffeId }, "facade listens");

  stack.use(
    await serveHealth({
      alive: core.alive,
      well: [
        {
          name: "nats",
          problem: () => (connection.connected() ? undefined : "it is not connected"),
        },
        ...core.well,
        ...troubleChecks(troubles),
      ],
      ready: [{ name: "svid", problem: svidProblem }],
      metrics: () => metrics.render(),
      listen: config.healthListen,
    }),
  );
  const kinds = config.backends.map(({ kind }) => kind);
  log.info({ component: "main", backends: kinds, version }, "runner started");
  await runTasks([...core.leaderTasks, ...core.relayTasks], signal);
}

/** All executors may be of one job, and each may dial anew a few times before its old sessions are gone. */
function sessionLimits(places: number) {
  return {
    sessions: Math.max(defaultTlsLimits.sessions, 16 * places),
    sessionsPerPeer: Math.max(defaultTlsLimits.sessionsPerPeer, 4 * places),
    connections: Math.max(defaultTlsLimits.connections, 32 * places),
  };
}

function problemOf(check: () => unknown): string | undefined {
  try {
    check();
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : "unknown error";
  }
}
