import path from "node:path";
import { after, afterEach, before } from "mocha";
import type { Image } from "../../../scripts/peers/cluster/image/oci-layout.ts";
import { prepareCluster } from "../../../scripts/peers/cluster/prepare-cluster.ts";
import { createRepository, type Repository } from "../../../scripts/peers/gitea-api/repository.ts";
import { createReport } from "../../../scripts/peers/report.ts";
import type { ServerProcess } from "../../../scripts/peers/server-process.ts";
import { startController } from "../../../scripts/quick-start/controller-process.ts";
import { preparePeers } from "../../../scripts/quick-start/prepare-peers.ts";
import { needCluster } from "../cluster.ts";
import { type ControllerLines, createControllerLines, telling } from "../controller-lines.ts";
import { pushRun, pushWorkflow, type PushedRun } from "../push-run.ts";
import {
  type ClusterPlatform,
  type ClusterPlatformOptions,
  startClusterPlatform,
} from "./cluster-platform.ts";
import { createTenant, type Tenant, type TenantOptions } from "./tenant.ts";

/** One controller of the cluster. */
export type ClusterController = Pick<ControllerLines, "lines" | "line"> & {
  readonly process: ServerProcess;
  readonly environment: Readonly<Record<string, string>>;
};

export type ControllerStart = {
  readonly tenant: Tenant;
  /** Which of the places of the platform; 0 unless given. */
  readonly place?: number;
  readonly changed?: Readonly<Record<string, string>>;
  /** The line that says that it stands; that it leads unless given. */
  readonly ready?: RegExp;
};

export type ClusterUnderTest = {
  readonly platform: ClusterPlatform;
  /** All that controllers need but for themselves. */
  tenant(options: TenantOptions): Promise<Tenant>;
  /** Starts a controller; it is stopped when the tests are over. */
  start(options: ControllerStart): Promise<ClusterController>;
  repository(name: string): Promise<Repository>;
  push(name: string, workflow: string): Promise<PushedRun>;
  pushTo(repository: Repository, workflow: string): Promise<PushedRun>;
};

export type ClusterOptions = Omit<ClusterPlatformOptions, "peers" | "parts"> & {
  /** Makes the executor's image, where it is not the one that is put together of the sources. */
  readonly executor?: () => Promise<Image>;
};

/** The first time, Kubernetes is compiled. */
const startMs = 90 * 60_000;
const tenantMs = 180_000;
/** Of a controller, with many others that begin at the same time. */
const controllerMs = 180_000;

/** The last lines of every executor that is there, as far as they can be had. */
async function tellExecutors({ kubernetes: { api } }: ClusterPlatform): Promise<void> {
  const soon = AbortSignal.timeout(20_000);
  const { text } = await api.ask("GET", "/api/v1/pods?labelSelector=ci.ddupan.top/runner", soon);
  const { items } = JSON.parse(text) as {
    readonly items?: readonly { readonly metadata: { readonly name: string; readonly namespace: string } }[];
  };
  for (const { metadata } of items ?? []) {
    const log = `/api/v1/namespaces/${metadata.namespace}/pods/${metadata.name}/log?tailLines=5`;
    const said = await api.ask("GET", log, soon).catch((error: unknown) => ({ text: String(error) }));
    process.stderr.write(`${metadata.namespace}/${metadata.name}: ${said.text}\n`);
  }
}

/**
 * Registers hooks that run a real cluster, Gitea and NATS for the surrounding file or `describe`. Where no cluster can
 * run its tests are skipped with the reason, or fail with CI=true.
 */
export function useCluster({ executor, ...options }: ClusterOptions = {}): ClusterUnderTest {
  const stack = new AsyncDisposableStack();
  const controllers: ClusterController[] = [];
  let platform: ClusterPlatform | undefined;
  const get = () => {
    if (platform === undefined) throw new Error("the cluster of this test is not started yet");
    return platform;
  };
  before("start a cluster, Gitea and NATS", async function () {
    this.timeout(startMs);
    await needCluster(this);
    const signal = AbortSignal.timeout(startMs);
    const report = createReport();
    const peers = await preparePeers(report, signal);
    const prepared = await prepareCluster({ report }, signal);
    const parts = executor === undefined ? prepared : { ...prepared, executor: await executor() };
    platform = stack.use(await startClusterPlatform({ ...options, peers, parts }, signal));
  });
  afterEach("tell what the controllers and executors logged", async function () {
    if (this.currentTest?.state !== "failed") return;
    if (platform !== undefined) await tellExecutors(platform);
    for (const { lines, environment } of controllers)
      for (const line of telling(lines))
        process.stderr.write(`${environment["HOSTNAME"] ?? ""} ${JSON.stringify(line)}\n`);
  });
  after("stop all of it", async function () {
    this.timeout(400_000);
    await stack.disposeAsync();
  });
  return {
    get platform() {
      return get();
    },
    tenant: (wanted) => createTenant(get(), wanted, AbortSignal.timeout(tenantMs)),
    start: async ({ tenant, place = 0, changed = {}, ready }) => {
      const environment = { ...(await tenant.environment(place)), ...changed };
      const told = createControllerLines();
      const folder = path.join(get().folder, `controller-${controllers.length}`);
      const started = await startController(
        {
          environment,
          folder,
          onLine: told.add,
          ...(ready === undefined ? {} : { ready }),
        },
        AbortSignal.timeout(controllerMs),
      );
      const controller = { process: started, environment, lines: told.lines, line: told.line };
      controllers.push(controller);
      // Before the cluster that it works on.
      stack.defer(() => started.stop());
      return controller;
    },
    repository: (name) => createRepository(get().admin, { name }, AbortSignal.timeout(tenantMs)),
    push: (name, workflow) => pushRun(get().admin, name, workflow),
    pushTo: (repository, workflow) => pushWorkflow(get().admin, repository, workflow),
  };
}
