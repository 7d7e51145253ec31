import path from "node:path";
import { createLocalBackend, type LocalBackend } from "./backends/local/local-backend.ts";
import { stageProgram } from "./backends/local/stage-program.ts";
import { ConfigError, type BackendConfig, type Config } from "./config.ts";
import type { CoreBackend } from "./core-ports.ts";
import type { Random } from "./platform/backoff.ts";
import type { Clock } from "./platform/clock.ts";
import type { Logger } from "./platform/logger.ts";

type Dependencies = { readonly clock: Clock; readonly random: Random; readonly log: Logger };

/** The backends that the configuration selects, ready to be listed. Throws ConfigError for what is not there. */
export async function openBackends(
  config: Config,
  dependencies: Dependencies,
): Promise<readonly CoreBackend[]> {
  const opened: CoreBackend[] = [];
  for (const wanted of config.backends) {
    const backend = await openBackend(config, wanted, dependencies);
    const { capacity, backlog } = wanted;
    const timeoutMs = wanted.timeoutSeconds * 1000;
    opened.push({ backend, capacity, backlog, timeoutMs, run: (signal) => backend.run(signal) });
  }
  return opened;
}

async function openBackend(
  config: Config,
  { kind, runsOn, timeoutSeconds }: BackendConfig,
  { clock, random, log }: Dependencies,
): Promise<LocalBackend> {
  if (runsOn !== "local" || config.local === undefined)
    throw new ConfigError([`${kind.toUpperCase()}_BACKEND: ${runsOn} does not exist yet, only local does`]);
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
