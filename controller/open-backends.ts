import path from "node:path";
import type { Backend } from "./backends/backend.ts";
import { createLocalBackend } from "./backends/local/local-backend.ts";
import { stageProgram } from "./backends/local/stage-program.ts";
import { createPodBackend } from "./backends/pod/pod-backend.ts";
import { ConfigError, type BackendConfig, type Config } from "./config.ts";
import type { CoreBackend } from "./core-ports.ts";
import type { KubernetesApi } from "./kubernetes/kubernetes-api.ts";
import type { Random } from "./platform/backoff.ts";
import type { Clock } from "./platform/clock.ts";
import type { Logger } from "./platform/logger.ts";

type Dependencies = {
  /** The cluster in which Pods are made; absent where none are. */
  readonly kubernetes?: KubernetesApi;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
};

type Opened = Pick<CoreBackend, "backend" | "run" | "viewAgeMs">;

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
      throw new ConfigError([`${wanted.kind.toUpperCase()}_BACKEND: opensandbox does not exist yet`]);
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
