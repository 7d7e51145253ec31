import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { entryFile, serialiseEntry, socketPath } from "../../controller/backends/local/workload-entry.ts";
import { parseSpiffeId } from "../../controller/identity/spiffe-id.ts";
import { createAdmin, type GiteaAdmin } from "../peers/gitea-api/admin.ts";
import { registerRunner } from "../peers/gitea-api/register-runner.ts";
import { freePort } from "../peers/free-port.ts";
import type { GiteaSettings } from "../peers/gitea-settings.ts";
import type { ServerProcess } from "../peers/server-process.ts";
import { startGitea, type Gitea } from "../peers/start-gitea.ts";
import { startNats, type Nats } from "../peers/start-nats.ts";
import { startWorkloadApi } from "../workload-api/start.ts";
import { startController, type ControllerLine } from "./controller-process.ts";
import { endExecutors } from "./end-executors.ts";
import type { Peers } from "./prepare-peers.ts";
import { newCapabilityKey, writeSecret } from "./secrets.ts";

export type PlatformOptions = {
  readonly peers: Peers;
  readonly giteaSettings?: GiteaSettings;
  /** Variables of the controller that replace or complete ours. */
  readonly controller?: Readonly<Record<string, string>>;
  readonly onControllerLine?: (line: ControllerLine) => void;
  /** Hears of each part as it stands. */
  readonly onStep?: (what: string) => void;
};

/** Gitea, NATS JetStream, a development Workload API and the controller, all on loopback, in one folder. */
export type Platform = AsyncDisposable & {
  readonly folder: string;
  readonly gitea: Gitea;
  readonly nats: Nats;
  readonly admin: GiteaAdmin;
  /** The controller's variables, for a second one or a restart. */
  readonly environment: Readonly<Record<string, string>>;
  /** The controller that runs now. */
  controller(): ServerProcess;
  /** Starts the controller again after it was stopped or killed. */
  restartController(signal: AbortSignal): Promise<void>;
  /** Ends all of it, executors included, and removes the folder; resolves to what was cleaned up. */
  stop(): Promise<{ readonly executors: number; readonly processes: number }>;
};

const trustDomain = "quick-start.example";
const facadeId = parseSpiffeId(`spiffe://${trustDomain}/controller/facade`);

/** Starts everything, in order; whatever fails on the way, nothing of it is left. */
export async function startPlatform(options: PlatformOptions, signal: AbortSignal): Promise<Platform> {
  const step = options.onStep ?? (() => undefined);
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(path.join(tmpdir(), "gitea-dynamic-runner-"));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  // Gitea and executors run under other uids and have to get through.
  await chmod(folder, 0o755);

  const nats = stack.use(
    await startNats({ folder: await below(folder, "nats"), peer: options.peers.nats }, signal),
  );
  step(`NATS JetStream listens on ${nats.url}`);
  const settings = options.giteaSettings === undefined ? {} : { settings: options.giteaSettings };
  const gitea = stack.use(
    await startGitea(
      { folder: await below(folder, "gitea"), peer: options.peers.gitea, ...settings },
      signal,
    ),
  );
  const admin = await createAdmin(gitea, { user: "demo" }, signal);
  step(`Gitea ${options.peers.gitea.version} answers at ${gitea.url}`);

  const workloadApiFolder = await below(folder, "spiffe");
  stack.use(await startWorkloadApi({ folder: workloadApiFolder, trustDomain, signal }));
  const entry = { spiffeId: facadeId, uid: null };
  await mkdir(path.dirname(entryFile(workloadApiFolder, "controller")), { recursive: true });
  await writeFile(entryFile(workloadApiFolder, "controller"), serialiseEntry(entry));
  step(`development Workload API of ${trustDomain} runs`);

  const runner = await registerRunner(gitea, { name: "gitea-dynamic-runner", labels: [] }, signal);
  step(`runner ${runner.uuid} is registered`);
  const state = await below(folder, "state");
  const port = await freePort();
  const environment = {
    GITEA_URL: gitea.url,
    GITEA_RUNNER_UUID: runner.uuid,
    GITEA_RUNNER_TOKEN_FILE: await writeSecret(folder, "runner-token", runner.token),
    NATS_URL: nats.url,
    NATS_USER: nats.user,
    NATS_PASSWORD_FILE: nats.passwordFile,
    TRUST_DOMAIN: trustDomain,
    SPIFFE_ENDPOINT_SOCKET: `unix://${socketPath(workloadApiFolder, "controller")}`,
    RUNNER_FACADE_LISTEN: `127.0.0.1:${port}`,
    RUNNER_FACADE_URL: `https://127.0.0.1:${port}`,
    RUNNER_FACADE_SPIFFE_ID: facadeId,
    CAPABILITY_KEY_FILE: await writeSecret(folder, "capability-keys", newCapabilityKey()),
    POD_BACKEND: "local",
    VM_BACKEND: "local",
    LOCAL_FOLDER: state,
    LOCAL_WORKLOAD_API_FOLDER: workloadApiFolder,
    GITEA_RUNNER_BINARY: options.peers.giteaRunner.binary,
    HEALTH_LISTEN: `127.0.0.1:${await freePort()}`,
    ...options.controller,
  };
  const onLine = options.onControllerLine;
  const start = (abort: AbortSignal) =>
    startController({ environment, folder, ...(onLine === undefined ? {} : { onLine }) }, abort);
  let executors = 0;
  stack.defer(async () => {
    executors = await endExecutors({ folder: state, workloadApiFolder, owner: runner.uuid, trustDomain });
  });
  let controller = await start(signal);
  stack.defer(() => controller.stop());
  step("the controller runs");

  const parts = stack.move();
  const stop = async () => {
    await parts.disposeAsync();
    return { executors, processes: 4 };
  };
  return {
    folder,
    gitea,
    nats,
    admin,
    environment,
    controller: () => controller,
    restartController: async (abort) => {
      await controller.stop();
      controller = await start(abort);
    },
    stop,
    [Symbol.asyncDispose]: async () => void (await stop()),
  };
}

async function below(folder: string, name: string): Promise<string> {
  const place = path.join(folder, name);
  await mkdir(place, { mode: 0o755 });
  return place;
}
