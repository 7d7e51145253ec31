import { cpus, loadavg } from "node:os";
import path from "node:path";
import type { Image } from "../../scripts/peers/cluster/image/oci-layout.ts";
import { clusterObstacle } from "../../scripts/peers/cluster/obstacle.ts";
import { prepareCluster } from "../../scripts/peers/cluster/prepare-cluster.ts";
import { createReport } from "../../scripts/peers/report.ts";
import type { ServerProcess } from "../../scripts/peers/server-process.ts";
import { startController } from "../../scripts/quick-start/controller-process.ts";
import { preparePeers } from "../../scripts/quick-start/prepare-peers.ts";
import { type ControllerLines, createControllerLines } from "../support/controller-lines.ts";
import { type ClusterPlatform, startClusterPlatform } from "../support/kubernetes/cluster-platform.ts";
import { createTenant, type Tenant } from "../support/kubernetes/tenant.ts";
import { type ApiProxy, startApiProxy } from "./pods-api-proxy.ts";
import { type GiteaProxy, startGiteaProxy } from "./pods-gitea-proxy.ts";
import { type PodsSeen, type SeenPod, watchPods } from "./pods-seen.ts";

export type BenchController = Pick<ControllerLines, "lines" | "line"> & {
  readonly process: ServerProcess;
  /** From the start of the process until it stands. */
  readonly startMs: number;
};

export type BenchStart = {
  /** Which of the places of the platform; 0 unless given. No two that run at once have the same. */
  readonly place?: number;
  /** Variables that differ. */
  readonly changed?: Readonly<Record<string, string>>;
  /** The line that says that it stands; that it leads and serves unless given. */
  readonly ready?: RegExp;
};

/** A real cluster, Gitea and NATS, and controllers, which call both by way of proxies that count. */
export type PodsBench = AsyncDisposable & {
  readonly platform: ClusterPlatform;
  readonly tenant: Tenant;
  readonly api: ApiProxy;
  readonly gitea: GiteaProxy;
  readonly seen: PodsSeen;
  /** It is stopped at the end. */
  start(options?: BenchStart): Promise<BenchController>;
};

const setUpMs = 30 * 60_000;

export async function startPodsBench(
  options: {
    readonly capacity: number;
    /** Variables of all controllers that differ. */
    readonly changed?: Readonly<Record<string, string>>;
    /** Makes the executor's image, where it is not the one that is put together of the sources. */
    readonly executor?: () => Promise<Image>;
  },
  onPod?: (pod: SeenPod) => void,
): Promise<PodsBench> {
  const obstacle = await clusterObstacle(process.env);
  if (obstacle !== undefined) throw new Error(obstacle);
  await using stack = new AsyncDisposableStack();
  const signal = AbortSignal.timeout(setUpMs);
  const report = createReport();
  const peers = await preparePeers(report, signal);
  const prepared = await prepareCluster({ report }, signal);
  const { executor } = options;
  const parts = executor === undefined ? prepared : { ...prepared, executor: await executor() };
  const platform = stack.use(await startClusterPlatform({ peers, parts }, signal));
  const { kubernetes } = platform;
  const tenant = await createTenant(platform, { name: "bench", capacity: options.capacity }, signal);
  const { namespace } = tenant;
  const account = { namespace, name: "controller-bench" };
  const api = stack.use(
    await startApiProxy(kubernetes, account, path.join(platform.folder, "proxy"), signal),
  );
  const gitea = stack.use(await startGiteaProxy(platform.gitea.url));
  const seen = stack.use(await watchPods(kubernetes, namespace, onPod));
  // After all that is stopped before the cluster.
  const controllers = stack.use(new AsyncDisposableStack());
  let starts = 0;
  const all = stack.move();
  return {
    platform,
    tenant,
    api,
    gitea,
    seen,
    start: async ({ place = 0, changed = {}, ready } = {}) => {
      const told = createControllerLines();
      const begun = performance.now();
      const started = await startController(
        {
          environment: {
            ...(await tenant.environment(place)),
            GITEA_URL: gitea.url,
            KUBECONFIG: api.kubeconfig,
            NODE_OPTIONS: `--import=${import.meta.resolve("./pods-memory.ts")}`,
            ...options.changed,
            ...changed,
          },
          folder: path.join(platform.folder, `controller-${++starts}`),
          onLine: told.add,
          ...(ready === undefined ? {} : { ready }),
        },
        AbortSignal.timeout(60_000),
      );
      controllers.defer(() => started.stop());
      const { lines, line } = told;
      return { process: started, lines, line, startMs: performance.now() - begun };
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

export function tellMachine(): void {
  console.log(`Node ${process.version}, ${cpus().length} cores, ${loadNow()}`);
}

export function loadNow(): string {
  return `load ${loadavg()
    .map((load) => load.toFixed(1))
    .join(" ")}`;
}
