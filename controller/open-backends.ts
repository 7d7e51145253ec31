import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import path from "node:path";
import type { Backend } from "./backends/backend.ts";
import { createLocalBackend } from "./backends/local/local-backend.ts";
import { stageProgram } from "./backends/local/stage-program.ts";
import { createPodBackend } from "./backends/pod/pod-backend.ts";
import { createVmBackend } from "./backends/vm/vm-backend.ts";
import { ConfigError, type BackendConfig, type Config } from "./config.ts";
import type { CoreBackend } from "./core-ports.ts";
import type { KubernetesApi } from "./kubernetes/kubernetes-api.ts";
import { createHttpApi } from "./opensandbox/http-api.ts";
import { openVmIdentity } from "./open-vm-identity.ts";
import type { Random } from "./platform/backoff.ts";
import type { Clock } from "./platform/clock.ts";
import type { Logger } from "./platform/logger.ts";
import type { SvidSource } from "./spiffe/x509-source.ts";

type Dependencies = {
  /** The cluster in which Pods are made, and entries for VMs; absent where none are. */
  readonly kubernetes?: KubernetesApi;
  /** Our own SVID, which comes later. */
  readonly source: SvidSource;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
};

type Opened = Pick<CoreBackend, "backend" | "run" | "viewAgeMs" | "close">;

/** The backends that the configuration selects, ready to be listed. Throws ConfigError for what is not there. */
export async function openBackends(
  config: Config,
  dependencies: Dependencies,
): Promise<readonly CoreBackend[]> {
  const opened: CoreBackend[] = [];
  for (const wanted of config.backends) {
    const { capacity, backlog, timeoutSeconds } = wanted;
    const backend = await openBackend(config, wanted, dependencies);
    opened.push({ ...backend, capacity, backlog, timeoutMs: timeoutSeconds * 1000 });
  }
  return opened;
}

async function openBackend(
  config: Config,
  wanted: BackendConfig,
  dependencies: Dependencies,
): Promise<Opened> {
  switch (wanted.runsOn) {
    case "local":
      return looksItself(await openLocal(config, wanted, dependencies));
    case "kubernetes":
      return openPods(config, dependencies);
    case "opensandbox":
      return openVms(config, dependencies);
    default:
      return wanted.runsOn satisfies never;
  }
}

function looksItself(backend: Backend & Pick<Opened, "run">): Opened {
  return { backend, run: (signal) => backend.run(signal) };
}

function openPods(config: Config, { kubernetes, ...platform }: Dependencies): Opened {
  if (config.kubernetes === undefined || kubernetes === undefined)
    throw new ConfigError(["POD_BACKEND: there is no cluster to make Pods in"]);
  const backend = createPodBackend({
    api: kubernetes,
    owner: config.gitea.uuid,
    trustDomain: config.trustDomain,
    ...config.kubernetes,
    ...platform,
  });
  return { ...looksItself(backend), viewAgeMs: () => backend.viewAgeMs() };
}

function openVms(config: Config, dependencies: Dependencies): Opened {
  if (config.openSandbox === undefined)
    throw new ConfigError(["VM_BACKEND: there is no OpenSandbox server to make VMs"]);
  const { api: url, apiKeyFile, pool, ca } = config.openSandbox;
  const { clock, random, log } = dependencies;
  const api = createHttpApi({
    url: new URL(url),
    key: async (signal) => (await readFile(apiKeyFile, { encoding: "utf8", signal })).trim(),
    requestId: randomUUID,
    clock,
    ...(ca === undefined ? {} : { ca }),
  });
  const backend = createVmBackend({
    api,
    identity: openVmIdentity(config, dependencies),
    owner: config.gitea.uuid,
    trustDomain: config.trustDomain,
    pool,
    clock,
    random,
    log,
  });
  const close = () => {
    api.close();
  };
  return { ...looksItself(backend), viewAgeMs: () => backend.viewAgeMs(), close };
}

async function openLocal(
  config: Config,
  { kind, timeoutSeconds }: BackendConfig,
  { clock, random, log }: Dependencies,
) {
  if (config.local === undefined)
    throw new ConfigError([`${kind.toUpperCase()}_BACKEND: local needs a state folder`]);
  const { folder, identity, giteaRunnerBinary, spireAgentBinary } = config.local;
  const staged = await stageProgram({
    source: path.dirname(import.meta.dirname),
    node: process.execPath,
    giteaRunnerBinary,
    ...(spireAgentBinary === undefined ? {} : { spireAgentBinary }),
    target: folder,
  });
  return createLocalBackend({
    kind,
    owner: config.gitea.uuid,
    trustDomain: config.trustDomain,
    folder,
    identity,
    program: { node: staged.node, bootstrap: staged.bootstrap },
    giteaRunnerBinary: staged.giteaRunnerBinary,
    timeoutSeconds,
    nodeEnv: config.nodeEnv,
    clock,
    random,
    log,
  });
}
