import { randomBytes, randomUUID } from "node:crypto";
import { checkRights } from "./check-rights.ts";
import type { Config } from "./config.ts";
import { createCore } from "./core.ts";
import type { CoreBackend, CorePorts } from "./core-ports.ts";
import { createRunnerClient } from "./gitea/runner-client.ts";
import { noticeAnswer } from "./health/notice-troubles.ts";
import { createTroubleBoard } from "./health/troubles.ts";
import type { KubernetesApi } from "./kubernetes/kubernetes-api.ts";
import { createLateSource } from "./late-source.ts";
import { createLeasePort } from "./kubernetes/lease-port.ts";
import { lockFolder } from "./lifecycle/controller-lock.ts";
import { type Leadership, mayServe, mustLead } from "./lifecycle/lead.ts";
import { openFacade } from "./open-facade.ts";
import { openHistory } from "./open-history.ts";
import { openPages } from "./open-pages.ts";
import { openStores, prepareStreams } from "./open-stores.ts";
import { openOwnIdentity } from "./own-identity.ts";
import type { Random } from "./platform/backoff.ts";
import type { Clock, SteadyClock } from "./platform/clock.ts";
import type { Logger } from "./platform/logger.ts";
import { connectNats } from "./platform/nats-connection.ts";
import { type Progress, svidProblem } from "./progress.ts";
import { compressTask, decompressTask } from "./protocol/compressed-task.ts";
import { readTask } from "./protocol/read-task.ts";
import { serveAsLeader } from "./serve-as-leader.ts";
import type { SvidSource } from "./spiffe/x509-source.ts";
import { takeTurns } from "./take-turns.ts";
import { version } from "./version.ts";

export type ControllerDependencies = {
  readonly clock: Clock;
  readonly steady: SteadyClock;
  readonly random: Random;
  readonly log: Logger;
  /** The cluster; asked for only where there is one. Rejects with what is wrong in the configuration. */
  readonly openKubernetes: (signal: AbortSignal) => Promise<KubernetesApi>;
  /** Where executors run. Rejects with what is wrong in the configuration. */
  readonly openBackends: (
    config: Config,
    dependencies: Pick<ControllerDependencies, "clock" | "random" | "log"> & {
      readonly kubernetes?: KubernetesApi;
      /** Our own SVID, which comes later. */
      readonly source: SvidSource;
    },
  ) => Promise<readonly CoreBackend[]>;
};

/** The Lease by which the controllers of a namespace take turns. */
const leaseName = "dynamic-runner-scheduler";

/**
 * The whole controller: connects, waits for its turn to lead, recovers, serves executors and takes tasks until the
 * signal is aborted. Then fetching stops, deliveries are handed back, the Lease is released, the facade closes; running
 * jobs go on. Rejects with what made it end, with LeaseLostError if it leads no more; outages of its peers are waited
 * for instead. Its pages tell of it from the start to the end.
 */
export async function runController(
  config: Config,
  { clock, steady, random, log, ...open }: ControllerDependencies,
  signal: AbortSignal,
): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const basics = { clock, random, log };
  // Whoever has the folder has the ports as well, those of the pages among them.
  if (config.local !== undefined) stack.use(await lockFolder(config.local.folder, clock, log, signal));

  const instance = randomUUID();
  // Not even the next process in the same Pod has the same: each would take the other's Lease for its own.
  const identity = `${config.hostname}_${instance}`;
  const progress: Progress = { waitsFor: "its peers" };
  const troubles = createTroubleBoard(clock);
  let giteaAnsweredAt: number | undefined;
  const pages = stack.use(
    await openPages({
      listen: config.healthListen,
      progress,
      troubles,
      giteaAnsweredAt: () => giteaAnsweredAt,
      clock,
    }),
  );
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
  const { lease: leaseConfig, kubernetes: podConfig, vmIdentity } = config;
  const inCluster =
    leaseConfig !== undefined || podConfig !== undefined || vmIdentity?.kind === "guest-agent";
  const kubernetes = inCluster ? await open.openKubernetes(signal) : undefined;
  stack.defer(() => kubernetes?.close());
  const ownSvid = createLateSource();
  const backends = await open.openBackends(config, {
    source: ownSvid,
    ...(kubernetes === undefined ? {} : { kubernetes }),
    clock,
    random,
    log: log.child({ component: "backend" }),
  });
  for (const backend of backends) stack.defer(() => backend.close?.());

  if (kubernetes !== undefined) {
    progress.waitsFor = "the API server";
    await checkRights(config, { kubernetes, ...basics }, signal);
  }
  progress.waitsFor = "NATS";
  const { stream: _stream, subjectBase: _base, caFile, ...server } = config.nats;
  const connection = await connectNats(
    { ...server, ...(caFile === undefined ? {} : { caFile }), clock, log: log.child({ component: "queue" }) },
    signal,
  );
  stack.defer(() => connection.close());
  progress.connection = connection;
  progress.waitsFor = "its streams in NATS";
  await prepareStreams(config, { connection, ...basics }, signal);
  progress.waitsFor = "an identity of its own";
  const source = stack.use(await openOwnIdentity(config, basics, signal));
  ownSvid.open(source);
  progress.source = source;
  progress.waitsFor = undefined;

  const { trustDomain, allowForksOnPods, keyRing, facade, vmLabel, times } = config;
  const read: CorePorts["read"] = (task) => readTask({ trustDomain, allowForksOnPods }, task);
  const { leaderKey, ...stores } = openStores(config, {
    connection,
    instance,
    identity,
    read,
    ...basics,
  });
  const events = stack.use(openHistory(config, { connection, instance, ...basics }));
  progress.events = events;

  const work = async (leadership: Leadership) => {
    const core = createCore(
      { owner: config.gitea.uuid, keyRing, facade, vmLabel, times },
      {
        gitea,
        ...stores,
        events,
        backends,
        read,
        compress: compressTask,
        decompress: decompressTask,
        newNonce: () => randomBytes(16).toString("hex"),
        countRefusal: (kind) => {
          pages.callerRefused(kind);
        },
        // Without one no handshake with us succeeds.
        canHear: () => svidProblem(progress) === undefined,
        mustLead: () => {
          mustLead(leadership);
        },
        mayServe: () => {
          mayServe(leadership);
        },
        troubles,
        ...basics,
      },
    );
    progress.reign = { leadership, core };
    const listen = async (abort: AbortSignal) => {
      // Closed after the Lease is released: executors can report until the next one serves them.
      const tls = stack.use(await openFacade({ config, core, source, ...basics }, abort));
      progress.reign = { leadership, core, tls };
      return tls;
    };
    await serveAsLeader({ core, leaderKey, openFacade: listen, ...basics }, leadership, signal);
  };
  const kinds = backends.map(({ backend }) => backend.kind);
  log.info({ component: "main", backends: kinds, version, identity }, "runner is ready to lead");
  const lifecycle = { clock, steady, random, log: log.child({ component: "lifecycle" }) };
  const lease =
    kubernetes && config.lease && createLeasePort({ api: kubernetes, name: leaseName, ...config.lease });
  await takeTurns({ lease, leaderKey, identity, times: config.leaseTimes, ...lifecycle }, work, signal);
}
