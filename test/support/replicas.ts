import { afterEach } from "mocha";
import { type Config, readConfig } from "../../controller/config.ts";
import { runController } from "../../controller/controller.ts";
import { ApiOutage, type KubernetesApi } from "../../controller/kubernetes/kubernetes-api.ts";
import type { LeaseTimes } from "../../controller/lifecycle/lease.ts";
import { systemClock, systemSteadyClock } from "../../controller/platform/clock.ts";
import { createKeyValue } from "../../controller/platform/key-value.ts";
import { stateBucket } from "../../controller/queue/streams.ts";
import { freePort } from "../../scripts/peers/free-port.ts";
import { createFakeBackend, createFakeBackendWorld, type FakeBackend } from "../fakes/fake-backend.ts";
import { createFakeKubernetes, type FakeKubernetes } from "../fakes/fake-kubernetes.ts";
import { createRecordingLogger, type RecordingLogger } from "../fakes/recording-logger.ts";
import { answersAt } from "./answers-at.ts";
import { untilAborted } from "./core-under-test.ts";
import { type ControllerPeers, peersTrustDomain } from "./controller-peers.ts";
import { healthPages, type HealthPages } from "./health-pages.ts";
import { soon } from "./jetstream.ts";
import { makeStreamsFor } from "./streams-for.ts";
import { withNats } from "./with-nats.ts";

/** One controller of a Deployment. */
export type Replica = {
  readonly pages: HealthPages;
  readonly backend: FakeBackend;
  readonly log: RecordingLogger;
  /** Whether somebody listens for executors. */
  listens(): Promise<boolean>;
  /** The API server answers it from now on, or does not any more. */
  setApiAway(away: boolean): void;
  /** SIGTERM. */
  stop(): void;
  /** Resolves to how it ended: "done", or the error. */
  readonly ended: Promise<unknown>;
};

/** What the controllers of one Deployment have in common. */
export type Deployment = {
  readonly kubernetes: FakeKubernetes;
  start(hostname: string): Promise<Replica>;
  /** Whose name is in the Lease. */
  holder(): string;
  /** Whose name is in the bucket. */
  leader(): Promise<string>;
};

/** Nobody loses it by itself, however busy the machine is. */
const leaseTimes: LeaseTimes = { durationMs: 600_000, renewDeadlineMs: 450_000, retryMs: 200 };
/** A Lease that ends soon, for tests in which it is to be lost. */
export const shortLease: LeaseTimes = { durationMs: 8_000, renewDeadlineMs: 6_000, retryMs: 200 };

/** Makes Deployments of controllers that have everything but a network to their cluster; all end with the test. */
export function useReplicas(peers: ControllerPeers) {
  const running: Replica[] = [];
  afterEach("stop the controllers", async () => {
    for (const replica of running.splice(0)) {
      replica.stop();
      replica.setApiAway(false);
      await replica.ended;
    }
  });
  return async (times: Partial<LeaseTimes> = {}): Promise<Deployment> => {
    const environment = {
      ...(await peers.environment()),
      POD_EXECUTOR_IMAGE: "registry.example/runner:1",
      SPIRE_AGENT_ID: `spiffe://${peersTrustDomain}/spire/agent/k8s_psat/{cluster}/{nodeUid}`,
      CONTROLLER_NAMESPACE: "ci",
    };
    const kubernetes = createFakeKubernetes(systemClock);
    const world = createFakeBackendWorld();
    await makeStreamsFor({ ...environment, HOSTNAME: "nobody" });

    const start = async (hostname: string): Promise<Replica> => {
      const facadePort = await freePort();
      const own = {
        ...environment,
        HOSTNAME: hostname,
        RUNNER_FACADE_LISTEN: `127.0.0.1:${facadePort}`,
        HEALTH_LISTEN: `127.0.0.1:${await freePort()}`,
      };
      const replica = run({ ...readConfig(own), leaseTimes: { ...leaseTimes, ...times } }, kubernetes, world);
      const started = { ...replica, pages: healthPages(own), listens: () => answersAt(facadePort) };
      running.push(started);
      return started;
    };
    return {
      kubernetes,
      start,
      holder: () => {
        const spec = kubernetes.get("Lease", "dynamic-runner-scheduler")?.spec;
        const name = spec?.["holderIdentity"];
        return typeof name === "string" ? name : "";
      },
      leader: async () => {
        const { nats } = readConfig({ ...environment, HOSTNAME: "nobody" });
        const bucket = stateBucket(nats.stream);
        const found = await withNats(nats, (link) => createKeyValue({ link, bucket }).read("leader", soon()));
        return new TextDecoder().decode(found?.value);
      },
    };
  };
}

function run(
  config: Config,
  kubernetes: FakeKubernetes,
  world: FakeBackend["world"],
): Omit<Replica, "pages" | "listens"> {
  const log = createRecordingLogger();
  const stop = new AbortController();
  const backend = createFakeBackend({
    kind: "pod",
    clock: systemClock,
    world,
    owner: config.gitea.uuid,
    trustDomain: config.trustDomain,
  });
  let away = false;
  const openKubernetes = async (): Promise<KubernetesApi> => ({
    call: async (...call) => {
      if (away) throw new ApiOutage("connect ECONNREFUSED");
      return kubernetes.api.call(...call);
    },
    watch: (...call) => kubernetes.api.watch(...call),
    // The others go on with it.
    close: () => undefined,
  });
  const openBackends = async () => [
    { backend, capacity: 1, backlog: 4, timeoutMs: 14_400_000, run: untilAborted },
  ];
  const basics = { clock: systemClock, steady: systemSteadyClock, random: Math.random, log };
  const ended = runController(config, { ...basics, openBackends, openKubernetes }, stop.signal).then(
    () => "done",
    (error: unknown) => error,
  );
  return {
    backend,
    log,
    setApiAway: (value) => void (away = value),
    stop: () => {
      stop.abort(new Error("SIGTERM"));
    },
    ended,
  };
}
