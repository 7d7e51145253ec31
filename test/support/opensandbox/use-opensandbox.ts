import { after, before } from "mocha";
import { findCluster } from "../../../controller/kubernetes/find-cluster.ts";
import { createHttpsApi } from "../../../controller/kubernetes/https-api.ts";
import type { KubernetesApi } from "../../../controller/kubernetes/kubernetes-api.ts";
import type { KubernetesObject } from "../../../scripts/peers/cluster/api.ts";
import { systemClock } from "../../../controller/platform/clock.ts";
import {
  type LoneApiServer,
  startLoneApiServer,
} from "../../../scripts/peers/cluster/start-lone-api-server.ts";
import { sandboxDefinitions } from "../../../scripts/peers/opensandbox/definitions.ts";
import {
  type OpenSandboxParts,
  prepareOpenSandboxLab,
} from "../../../scripts/peers/opensandbox/prepare-lab.ts";
import { openSandboxObstacle } from "../../../scripts/peers/opensandbox/prepare-server.ts";
import {
  type OpenSandboxOptions,
  type OpenSandboxServer,
  startOpenSandbox,
} from "../../../scripts/peers/opensandbox/start-server.ts";
import { createReport } from "../../../scripts/peers/report.ts";
import { makeRunFolder, type RunFolder } from "../../../scripts/quick-start/run-folder.ts";
import { createRecordingLogger, type RecordingLogger } from "../../fakes/recording-logger.ts";
import { skipFor } from "../needs-tools.ts";
import { type PoolController, type PoolControllerOptions, startPoolController } from "./pool-controller.ts";
import { createSandboxResources, type SandboxResources } from "./sandbox-resources.ts";

/** A real OpenSandbox server on a real API server, for all tests of a `describe`. Nobody plays its pools at first. */
export type OpenSandboxLab = {
  readonly folder: RunFolder;
  readonly apiServer: LoneApiServer;
  readonly server: OpenSandboxServer;
  /** The administrator's client of the API server. */
  readonly api: KubernetesApi;
  readonly resources: SandboxResources;
  /** Of the pools' controllers. */
  readonly log: RecordingLogger;
  /** Starts a pool's controller; whoever started it disposes of it. */
  pool(options: Pick<PoolControllerOptions, "pool" | "capacity" | "host">): Promise<PoolController>;
  /** Removes all sandboxes, whoever holds on to them; their VMs are for the pools' controllers to end. */
  removeAll(): Promise<void>;
};

/** The API server is compiled the first time. */
const buildMs = 90 * 60_000;
const namespace = "sandboxes";
const { signal } = new AbortController();

/** Registers hooks that start the servers, and stop them. Skips the tests where they cannot be had. */
export function useOpenSandbox(
  times: Pick<OpenSandboxOptions, "createSeconds" | "poolSeconds" | "lifeSeconds"> = {},
): OpenSandboxLab {
  const stack = new AsyncDisposableStack();
  let state: OpenSandboxLab | undefined;
  const lab = () => {
    if (state === undefined) throw new Error("the OpenSandbox server is there from the first test on");
    return state;
  };
  before("start an API server and OpenSandbox", async function () {
    this.timeout(buildMs);
    const obstacle = await openSandboxObstacle(process.env, signal);
    if (obstacle !== undefined) skipFor(this, obstacle);
    const parts = await prepareOpenSandboxLab({ report: createReport() }, signal);
    state = await startLab(parts, times, stack);
  });
  after("stop both", async function () {
    this.timeout(300_000);
    await stack.disposeAsync();
  });
  return {
    get folder() {
      return lab().folder;
    },
    get apiServer() {
      return lab().apiServer;
    },
    get server() {
      return lab().server;
    },
    get api() {
      return lab().api;
    },
    get resources() {
      return lab().resources;
    },
    get log() {
      return lab().log;
    },
    pool: (options) => lab().pool(options),
    removeAll: () => lab().removeAll(),
  };
}

/** Starts both; disposing of the stack ends them. */
export async function startLab(
  { etcd, apiServer: peer, server: serverPeer }: OpenSandboxParts,
  times: Parameters<typeof useOpenSandbox>[0],
  stack: AsyncDisposableStack,
  further: readonly KubernetesObject[] = [],
): Promise<OpenSandboxLab> {
  const folder = await makeRunFolder();
  stack.defer(async () => void (await folder.remove()));
  const place = { folder: await folder.below("kubernetes"), etcd, apiServer: peer };
  const apiServer = stack.use(
    await startLoneApiServer(
      { ...place, definitions: [...sandboxDefinitions, ...further], namespaces: [namespace] },
      signal,
    ),
  );
  const { kubeconfig } = apiServer;
  const cluster = await findCluster({ KUBECONFIG: kubeconfig }, systemClock, signal);
  const api = createHttpsApi({ cluster, clock: systemClock });
  stack.defer(() => api.close());
  const sandboxes = { folder: await folder.below("opensandbox"), peer: serverPeer, kubeconfig, namespace };
  const server = stack.use(await startOpenSandbox({ ...sandboxes, ...times }, signal));
  const resources = createSandboxResources(apiServer.api, namespace);
  const log = createRecordingLogger();
  const pool: OpenSandboxLab["pool"] = (options) =>
    startPoolController({ ...options, resources, api, clock: systemClock, log }, signal);
  const removeAll = async () => {
    for (const { id } of await resources.list(signal)) {
      await resources.remove(id, signal);
      await resources.setFinalizers(id, [], signal);
    }
  };
  return { folder, apiServer, server, api, resources, log, pool, removeAll };
}
