import { createAdmin, type GiteaAdmin } from "../peers/gitea-api/admin.ts";
import { registerRunner } from "../peers/gitea-api/register-runner.ts";
import type { GiteaSettings } from "../peers/gitea-settings.ts";
import { startGitea, type Gitea } from "../peers/start-gitea.ts";
import type { ControllerLine } from "./controller-process.ts";
import { createParts, type Part } from "./parts.ts";
import type { Peers } from "./prepare-peers.ts";
import { makeRunFolder } from "./run-folder.ts";
import { startRunnerSide, type RunnerSide, type RunnerSideOptions } from "./runner-side.ts";

export type PlatformOptions = Pick<RunnerSideOptions, "spire" | "workloadApi"> & {
  readonly peers: Peers;
  readonly giteaSettings?: GiteaSettings;
  /** Variables of the controller that replace or complete ours. */
  readonly controller?: Readonly<Record<string, string>>;
  readonly onControllerLine?: (line: ControllerLine) => void;
  /** Hears of each part as it stands. */
  readonly onStep?: (what: string) => void;
  /** Leaves the folder for looking. */
  readonly keep?: boolean;
  /** Once it is aborted, whatever is being ended is killed instead. */
  readonly hurry?: AbortSignal;
};

/** What was cleaned up at the end: counted, not assumed. */
export type Cleaned = {
  /** Executors that the controller had left. */
  readonly executors: number;
  /** Programs that ran until they were stopped. */
  readonly processes: number;
  readonly folders: number;
};

/** Gitea, NATS JetStream, a Workload API and the controller, all on loopback, in one folder. */
export type Platform = AsyncDisposable &
  Omit<RunnerSide, "stop"> & {
    readonly folder: string;
    /** The server that runs now; its address stays the same. */
    readonly gitea: Gitea;
    readonly admin: GiteaAdmin;
    /** Ends Gitea in order and starts it again at the same address with the same data. */
    restartGitea(signal: AbortSignal): Promise<void>;
    /** Rejects as soon as a part has ended by itself, with the end of its log. */
    readonly failure: (signal: AbortSignal) => Promise<never>;
    /** Ends all of it, executors included, and removes the folder; resolves to what was cleaned up. */
    stop(): Promise<Cleaned>;
  };

/** Starts everything, in order; whatever fails on the way, nothing of it is left. */
export async function startPlatform(options: PlatformOptions, signal: AbortSignal): Promise<Platform> {
  const { peers, onStep = () => undefined, hurry = new AbortController().signal } = options;
  await using stack = new AsyncDisposableStack();
  const folder = await makeRunFolder(options);
  let folders = 0;
  stack.defer(async () => {
    folders = (await folder.remove()) ? 1 : 0;
  });
  const parts = createParts(hurry);

  const giteaFolder = await folder.below("gitea");
  const settings = options.giteaSettings === undefined ? {} : { settings: options.giteaSettings };
  const serve = async (abort: AbortSignal, same: { readonly port?: number } = {}) => {
    const running = await startGitea({ ...same, folder: giteaFolder, peer: peers.gitea, ...settings }, abort);
    const part: Part = {
      ...running,
      name: "gitea",
      kill: () => {
        running.signal("SIGKILL");
      },
    };
    parts.add(part);
    return { running, part };
  };
  let gitea = await serve(signal);
  stack.defer(() => parts.stop(gitea.part));
  const admin = await createAdmin(gitea.running, { user: "demo" }, signal);
  onStep(`Gitea ${peers.gitea.version} answers at ${gitea.running.url}`);
  const runner = await registerRunner(gitea.running, { name: "gitea-dynamic-runner", labels: [] }, signal);
  onStep(`runner ${runner.uuid} is registered`);

  const side = await startRunnerSide(
    { ...options, folder, parts, gitea: { url: gitea.running.url, runner }, onStep },
    signal,
  );
  let executors = 0;
  stack.defer(async () => {
    ({ executors } = await side.stop());
  });

  const all = stack.move();
  let stopping: Promise<void> | undefined;
  const stop = async () => {
    await (stopping ??= all.disposeAsync());
    return { executors, processes: parts.stopped(), folders };
  };
  return {
    ...side,
    get nats() {
      return side.nats;
    },
    folder: folder.path,
    get gitea() {
      return gitea.running;
    },
    admin,
    restartGitea: async (abort) => {
      const { port } = gitea.running;
      await parts.stop(gitea.part);
      gitea = await serve(abort, { port });
    },
    failure: parts.failure,
    stop,
    [Symbol.asyncDispose]: async () => void (await stop()),
  };
}
