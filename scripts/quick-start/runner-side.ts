import path from "node:path";
import { freePort } from "../peers/free-port.ts";
import type { RegisteredRunner } from "../peers/gitea-api/register-runner.ts";
import type { ServerProcess } from "../peers/server-process.ts";
import { startNats, type Nats, type NatsOptions } from "../peers/start-nats.ts";
import type { Spire } from "../peers/start-spire.ts";
import { startController, type ControllerLine } from "./controller-process.ts";
import { endExecutors } from "./end-executors.ts";
import {
  type DevelopmentChoice,
  facadeId,
  type SpireChoice,
  startDevelopmentIdentities,
  startSpireIdentities,
  trustDomain,
} from "./identities.ts";
import type { Part, Parts } from "./parts.ts";
import type { RunnerPeers } from "./prepare-peers.ts";
import type { RunFolder } from "./run-folder.ts";
import { newCapabilityKey, writeSecret } from "./secrets.ts";

export type RunnerSideOptions = {
  readonly peers: RunnerPeers;
  readonly folder: RunFolder;
  /** Hears of each program that is started. */
  readonly parts: Parts;
  /** The Gitea to work for, and as whom. */
  readonly gitea: { readonly url: string; readonly runner: RegisteredRunner };
  /** Real SPIRE in place of the development Workload API; only as root. */
  readonly spire?: SpireChoice;
  /** For the development Workload API, where it serves. */
  readonly workloadApi?: DevelopmentChoice;
  /** Variables of the controller that replace or complete ours. */
  readonly controller?: Readonly<Record<string, string>>;
  readonly onControllerLine?: (line: ControllerLine) => void;
  /** Hears of each part as it stands. */
  readonly onStep: (what: string) => void;
};

/** What it takes beside Gitea: NATS JetStream, a Workload API and the controller, all on loopback. */
export type RunnerSide = {
  /** The server that runs now; its address and password stay the same. */
  readonly nats: Nats;
  /** Where it was asked for. */
  readonly spire: Spire | undefined;
  /** The controller's variables, for a second one or a restart. */
  readonly environment: Readonly<Record<string, string>>;
  /** The controller that runs now. */
  controller(): ServerProcess;
  /** Starts the controller again after it was stopped or killed, this once with some variables changed. */
  restartController(signal: AbortSignal, changed?: Readonly<Record<string, string>>): Promise<void>;
  /** Ends NATS in order and starts it again at the same address; `between` may change its files, below `jetstream`. */
  restartNats(signal: AbortSignal, between?: (folder: string) => Promise<void>): Promise<void>;
  /** Ends all of it, executors included; resolves to how many executors the controller had left. */
  stop(): Promise<{ readonly executors: number }>;
};

/** Starts it in order; whatever fails on the way, nothing of it is left but files in the folder. */
export async function startRunnerSide(options: RunnerSideOptions, signal: AbortSignal): Promise<RunnerSide> {
  const { peers, folder, parts, gitea, onStep } = options;
  await using stack = new AsyncDisposableStack();
  const natsFolder = await folder.below("nats");
  const startQueue = async (abort: AbortSignal, same: Pick<NatsOptions, "port" | "password"> = {}) => {
    const running = await startNats({ ...same, folder: natsFolder, peer: peers.nats }, abort);
    const part: Part = {
      name: "nats-server",
      logFile: path.join(natsFolder, "nats-server.log"),
      exited: running.exited,
      stop: () => running.stop(),
      kill: () => {
        running.signal("SIGKILL");
      },
    };
    parts.add(part);
    return { running, part };
  };
  let nats = await startQueue(signal);
  stack.defer(() => parts.stop(nats.part));
  onStep(`NATS JetStream listens on ${nats.running.url}`);

  const identities =
    options.spire === undefined
      ? await startDevelopmentIdentities(options.workloadApi ?? {}, folder, signal)
      : await startSpireIdentities(options.spire, folder, signal);
  parts.add(identities.part);
  stack.defer(() => parts.stop(identities.part));
  onStep(identities.what);

  const state = await folder.below("state");
  const port = await freePort();
  const environment = {
    GITEA_URL: gitea.url,
    GITEA_RUNNER_UUID: gitea.runner.uuid,
    GITEA_RUNNER_TOKEN_FILE: await writeSecret(folder.path, "runner-token", gitea.runner.token),
    NATS_URL: nats.running.url,
    NATS_USER: nats.running.user,
    NATS_PASSWORD_FILE: nats.running.passwordFile,
    TRUST_DOMAIN: trustDomain,
    RUNNER_FACADE_LISTEN: `127.0.0.1:${port}`,
    RUNNER_FACADE_URL: `https://127.0.0.1:${port}`,
    RUNNER_FACADE_SPIFFE_ID: facadeId,
    CAPABILITY_KEY_FILE: await writeSecret(folder.path, "capability-keys", newCapabilityKey()),
    POD_BACKEND: "local",
    VM_BACKEND: "local",
    LOCAL_FOLDER: state,
    ...identities.environment,
    GITEA_RUNNER_BINARY: peers.giteaRunner.binary,
    HEALTH_LISTEN: `127.0.0.1:${await freePort()}`,
    ...options.controller,
  };
  let executors = 0;
  stack.defer(async () => {
    const owner = gitea.runner.uuid;
    executors = await endExecutors({ folder: state, identity: identities.local, owner, trustDomain });
  });
  const onLine = options.onControllerLine;
  const start = async (abort: AbortSignal, changed: Readonly<Record<string, string>> = {}) => {
    const place = { environment: { ...environment, ...changed }, folder: folder.path };
    const running = await startController({ ...place, ...(onLine === undefined ? {} : { onLine }) }, abort);
    const part: Part = {
      name: "the controller",
      logFile: path.join(folder.path, "controller.log"),
      exited: running.exited,
      stop: () => running.stop(),
      kill: () => {
        running.signal("SIGKILL");
      },
    };
    parts.add(part);
    return { running, part };
  };
  let controller = await start(signal);
  stack.defer(() => parts.stop(controller.part));
  onStep("the controller runs");

  const all = stack.move();
  let stopping: Promise<void> | undefined;
  return {
    get nats() {
      return nats.running;
    },
    spire: identities.spire,
    environment,
    controller: () => controller.running,
    restartController: async (abort, changed) => {
      await parts.stop(controller.part);
      controller = await start(abort, changed);
    },
    restartNats: async (abort, between) => {
      const { port: samePort, password } = nats.running;
      await parts.stop(nats.part);
      await between?.(natsFolder);
      nats = await startQueue(abort, { port: samePort, password });
    },
    stop: async () => {
      await (stopping ??= all.disposeAsync());
      return { executors };
    },
  };
}
