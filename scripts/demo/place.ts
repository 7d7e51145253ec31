import path from "node:path";
import type { GiteaApi } from "../peers/gitea-api/client.ts";
import { createRepository, type Repository } from "../peers/gitea-api/repository.ts";
import type { Report } from "../peers/report.ts";
import type { ControllerLine } from "../quick-start/controller-process.ts";
import { createParts } from "../quick-start/parts.ts";
import { startPlatform } from "../quick-start/platform.ts";
import { preparePeers, prepareRunnerPeers } from "../quick-start/prepare-peers.ts";
import { makeRunFolder } from "../quick-start/run-folder.ts";
import { startRunnerSide } from "../quick-start/runner-side.ts";
import { unreachableAddress } from "./gitea-address.ts";
import { checkGitea, openGivenGitea, type Removed } from "./given-gitea.ts";
import { readTokenFile } from "./token-file.ts";

/** Everything that runs, and a repository in Gitea whose jobs it takes. */
export type Place = {
  readonly folder: string;
  readonly controllerLog: string;
  readonly api: GiteaApi;
  readonly repository: Repository;
  /** Of a Gitea that was started here. */
  readonly login: { readonly user: string; readonly password: string } | undefined;
  /** Why Gitea's pages do not work in a browser. */
  readonly noPages: string | undefined;
  /** Rejects as soon as a part has ended by itself, with the end of its log. */
  readonly failure: (signal: AbortSignal) => Promise<never>;
  /** Ends and removes all of it, once; resolves to what that was. */
  close(): Promise<CleanedUp>;
};

export type CleanedUp = Removed & {
  /** Executors that the controller had left. */
  readonly executors: number;
  readonly processes: number;
  readonly folders: number;
};

export type PlaceOptions = {
  readonly keep: boolean;
  readonly report: Report;
  readonly say: (line: string) => void;
  /** Hears of each part as it stands. */
  readonly onStep: (what: string) => void;
  readonly onControllerLine: (line: ControllerLine) => void;
  /** Variables of the controller. */
  readonly controller: Readonly<Record<string, string>>;
  readonly hurry: AbortSignal;
};

/** A Gitea of the demo's own, with everything else. */
export async function openOwnPlace(options: PlaceOptions, signal: AbortSignal): Promise<Place> {
  const { report, say } = options;
  say("Real peers");
  const peers = await preparePeers(report, signal);
  for (const { name, version, source } of [peers.nats, peers.giteaRunner, peers.gitea])
    say(`  ${name} ${version} (${source})`);
  const { webPage } = peers.gitea;
  if (!webPage.built) say(`  no web page: ${webPage.reason}`);
  say("\nPlatform");
  const platform = await startPlatform({ ...options, peers }, signal);
  try {
    const { admin, folder } = platform;
    return {
      folder,
      controllerLog: path.join(folder, "controller.log"),
      api: admin,
      repository: await createRepository(admin, { name: "hello" }, signal),
      login: admin,
      noPages: webPage.built ? undefined : webPage.reason,
      failure: platform.failure,
      close: async () => ({ ...(await platform.stop()), runners: 0, repositories: 0, problems: [] }),
    };
  } catch (error) {
    await platform.stop();
    throw error;
  }
}

/** Somebody's Gitea; the rest runs here. */
export async function openGivenPlace(
  gitea: { readonly url: string; readonly tokenFile: string },
  options: PlaceOptions,
  signal: AbortSignal,
): Promise<Place> {
  const { report, say, onStep } = options;
  const { token, warning } = await readTokenFile(gitea.tokenFile);
  if (warning !== undefined) say(`Warning: ${warning}`);
  const api = { url: gitea.url, token };
  const version = await checkGitea(api, signal);
  const elsewhere = await unreachableAddress(api.url, signal);
  if (elsewhere !== undefined)
    say(
      `Warning: Gitea calls itself ${elsewhere}, which is not reachable from here: no job can check out anything`,
    );
  say("Real peers");
  const peers = await prepareRunnerPeers(report, signal);
  for (const { name, version: pinned, source } of [peers.nats, peers.giteaRunner])
    say(`  ${name} ${pinned} (${source})`);
  say("\nPlatform");
  onStep(`Gitea ${version} answers at ${api.url}`);

  await using stack = new AsyncDisposableStack();
  let removed: Removed = { runners: 0, repositories: 0, problems: [] };
  const made = await openGivenGitea(api, signal);
  stack.defer(async () => {
    if (!options.keep) removed = await made.remove();
  });
  const { repository, runner } = made;
  onStep(`runner ${runner.uuid} is registered for ${repository.owner}/${repository.name} only`);
  const folder = await makeRunFolder(options);
  let folders = 0;
  stack.defer(async () => {
    folders = (await folder.remove()) ? 1 : 0;
  });
  const parts = createParts(options.hurry);
  const side = await startRunnerSide(
    { ...options, peers, folder, parts, gitea: { url: api.url, runner } },
    signal,
  );
  let executors = 0;
  stack.defer(async () => {
    ({ executors } = await side.stop());
  });
  const all = stack.move();
  let closing: Promise<void> | undefined;
  return {
    folder: folder.path,
    controllerLog: path.join(folder.path, "controller.log"),
    api,
    repository,
    login: undefined,
    noPages: undefined,
    failure: parts.failure,
    close: async () => {
      await (closing ??= all.disposeAsync());
      return { ...removed, executors, processes: parts.stopped(), folders };
    },
  };
}
