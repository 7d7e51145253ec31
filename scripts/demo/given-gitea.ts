import { randomBytes } from "node:crypto";
import * as z from "zod";
import { isAbortOf } from "../../controller/platform/signal.ts";
import { askGitea, askGiteaForText, GiteaRefusal, type GiteaApi } from "../peers/gitea-api/client.ts";
import { exchangeToken, type RegisteredRunner } from "../peers/gitea-api/register-runner.ts";
import { repositoryPath, type Repository } from "../peers/gitea-api/repository.ts";
import { giteaProblem, versionProblem } from "./gitea-problem.ts";
import { explain, UserError } from "./user-error.ts";

/** What the demo made in somebody's Gitea. */
export type GivenGitea = {
  readonly repository: Repository;
  /** Takes jobs of that repository only. */
  readonly runner: RegisteredRunner;
  /** Takes it away again. Never rejects: what is left over is among the problems. */
  remove(): Promise<Removed>;
};

export type Removed = {
  readonly runners: number;
  readonly repositories: number;
  readonly problems: readonly string[];
};

const requestDeadlineMs = 30_000;
const versionSchema = z.object({ version: z.string() });
const repositorySchema = z.object({
  name: z.string(),
  owner: z.object({ login: z.string() }),
  has_actions: z.boolean(),
});
const tokenSchema = z.object({ token: z.string().min(1) });

/** Asks who answers there. Rejects with a sentence for the user unless it is a Gitea that will do, and takes the token. */
export async function checkGitea(api: GiteaApi, signal: AbortSignal): Promise<string> {
  await checkAddress(api.url, signal);
  const request = { method: "GET", path: "/version" } as const;
  const ask = () => askGitea(api, request, versionSchema, signal);
  const { version } = await asked(api, "a look at its version", ask, signal);
  const problem = versionProblem(version);
  if (problem !== undefined) throw new UserError(`${api.url}: ${problem}`);
  return version;
}

/** Somebody who asks for http and is sent to https would lose what is posted. */
async function checkAddress(url: string, signal: AbortSignal): Promise<void> {
  const soon = AbortSignal.any([signal, AbortSignal.timeout(requestDeadlineMs)]);
  const ask = () => fetch(`${url}/api/v1/version`, { redirect: "manual", signal: soon });
  const response = await asked({ url }, "a look at its version", ask, signal);
  await response.body?.cancel();
  const location = response.headers.get("location");
  if (response.status >= 300 && response.status < 400 && location !== null) {
    const there = new URL(location, url).href.replace(/\/api\/v1\/version.*$/, "");
    throw new UserError(`${url} sends us to ${there}: give that address`);
  }
  if (response.status === 404) throw new UserError(`${url} is no Gitea: it has no /api/v1/version`);
}

/**
 * Makes a private repository with Actions, and a runner for it. Whatever fails on the way, nothing of it is left. A
 * request that makes something is not cut short by the signal: whether it was done would be unknown.
 */
export async function openGivenGitea(api: GiteaApi, signal: AbortSignal): Promise<GivenGitea> {
  signal.throwIfAborted();
  const repository = await createPrivateRepository(api);
  let runner: RegisteredRunner | undefined;
  const remove = async () => await removeAll(api, repository, runner);
  try {
    await enableActions(api, repository, signal);
    const path = `${repositoryPath(repository)}/actions/runners/registration-token`;
    const ask = () => askGitea(api, { method: "POST", path }, tokenSchema, signal);
    const { token } = await asked(api, "a registration token for the repository", ask, signal);
    runner = await exchangeToken(api.url, token, { name: "gitea-dynamic-runner-demo", labels: [] }, whole());
    signal.throwIfAborted();
    return { repository, runner, remove };
  } catch (error) {
    const { problems } = await remove();
    if (problems.length === 0) throw error;
    throw new UserError(`${explain(error)}; ${problems.join("; ")}`, { cause: error });
  }
}

async function createPrivateRepository(api: GiteaApi): Promise<Repository> {
  const name = `gitea-dynamic-runner-demo-${randomBytes(4).toString("hex")}`;
  const body = {
    name,
    description: "Made by the demo of gitea-dynamic-runner, which removes it at its end",
    private: true,
    auto_init: true,
    default_branch: "main",
  };
  const request = { method: "POST", path: "/user/repos", body } as const;
  const ask = () => askGitea(api, request, repositorySchema, whole());
  const created = await asked(api, "the creation of a repository", ask);
  return { owner: created.owner.login, name: created.name };
}

/** An operator may have left Actions out of new repositories; where they are off altogether, Gitea changes nothing. */
async function enableActions(api: GiteaApi, repository: Repository, signal: AbortSignal): Promise<void> {
  const request = { method: "PATCH", path: repositoryPath(repository), body: { has_actions: true } } as const;
  const ask = () => askGitea(api, request, repositorySchema, signal);
  const { has_actions: enabled } = await asked(api, "to enable Actions for the repository", ask, signal);
  if (!enabled)
    throw new UserError(`${api.url}: Actions are disabled there ([actions] ENABLED in its app.ini)`);
}

/** The runner first: a repository that is deleted may leave the row of its runner. */
async function removeAll(
  api: GiteaApi,
  repository: Repository,
  runner: RegisteredRunner | undefined,
): Promise<Removed> {
  const problems: string[] = [];
  const remove = async (what: string, path: string) => {
    try {
      await askGiteaForText(api, { method: "DELETE", path }, whole());
      return 1;
    } catch (error) {
      if (error instanceof GiteaRefusal && error.status === 404) return 0;
      problems.push(`remove ${what} by hand: ${giteaProblem(api.url, "its removal", error)}`);
      return 0;
    }
  };
  const path = repositoryPath(repository);
  const name = `${repository.owner}/${repository.name}`;
  const row = runner === undefined ? undefined : `${path}/actions/runners/${runner.id}`;
  const runners = row === undefined ? 0 : await remove(`the runner of ${name}`, row);
  return { runners, repositories: await remove(`the repository ${name}`, path), problems };
}

function whole(): AbortSignal {
  return AbortSignal.timeout(requestDeadlineMs);
}

/** Turns what went wrong into a sentence for the user; an abort stays what it is. */
async function asked<T>(
  { url }: { readonly url: string },
  doing: string,
  ask: () => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (signal !== undefined && isAbortOf(signal, error)) throw error;
    throw new UserError(giteaProblem(url, doing, error), { cause: error });
  }
}
