import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as z from "zod";
import type { GiteaAdmin } from "../../scripts/peers/gitea-api/admin.ts";
import { askGitea, askGiteaForText, type GiteaApi } from "../../scripts/peers/gitea-api/client.ts";
import { type Repository, repositoryPath } from "../../scripts/peers/gitea-api/repository.ts";
import { logIn } from "../../scripts/peers/gitea-api/web-session.ts";
import { runCommand } from "../../scripts/peers/run-command.ts";
import type { Gitea } from "../../scripts/peers/start-gitea.ts";

/** Somebody without any right but to read. */
export type Contributor = GiteaApi & { readonly user: string };

export async function createContributor(
  gitea: Gitea,
  user: string,
  signal: AbortSignal,
): Promise<Contributor> {
  const password = randomBytes(18).toString("base64url");
  const who = ["--username", user, "--password", password, "--email", `${user}@example.invalid`];
  const what = ["--must-change-password=false", "--access-token", "--access-token-scopes", "all"];
  const output = await gitea.command(["admin", "user", "create", ...who, ...what], signal);
  const token = /successfully created\W+([0-9a-f]{40})\b/.exec(output)?.[1];
  if (token === undefined) throw new Error("gitea admin user create printed no access token");
  return { url: gitea.url, user, token };
}

export async function fork(
  api: GiteaApi,
  repository: Repository,
  name: string,
  signal: AbortSignal,
): Promise<Repository> {
  const schema = z.object({ name: z.string(), owner: z.object({ login: z.string() }) });
  const path = `${repositoryPath(repository)}/forks`;
  const made = await askGitea(api, { method: "POST", path, body: { name } }, schema, signal);
  return { owner: made.owner.login, name: made.name };
}

export async function deleteRepository(
  api: GiteaApi,
  repository: Repository,
  signal: AbortSignal,
): Promise<void> {
  await askGiteaForText(api, { method: "DELETE", path: repositoryPath(repository) }, signal);
}

/** Opens one from `head` (a branch, or `owner:branch` of a fork) to `main`; resolves to its number. */
export async function openPullRequest(
  api: GiteaApi,
  repository: Repository,
  head: string,
  signal: AbortSignal,
): Promise<number> {
  const path = `${repositoryPath(repository)}/pulls`;
  const body = { head, base: "main", title: `From ${head}` };
  return (await askGitea(api, { method: "POST", path, body }, z.object({ number: z.int() }), signal)).number;
}

/** A comment on the whole, about a commit of the reviewer's choice. */
export async function review(
  api: GiteaApi,
  repository: Repository,
  of: { readonly pull: number; readonly commit: string },
  signal: AbortSignal,
): Promise<void> {
  const path = `${repositoryPath(repository)}/pulls/${of.pull}/reviews`;
  const body = { event: "COMMENT", body: "Seen.", commit_id: of.commit };
  await askGiteaForText(api, { method: "POST", path, body }, signal);
}

/** Puts a new label on a pull request. */
export async function label(
  api: GiteaApi,
  repository: Repository,
  pull: number,
  signal: AbortSignal,
): Promise<void> {
  const at = repositoryPath(repository);
  const body = { name: `label-${pull}`, color: "#00aabb" };
  const made = await askGitea(
    api,
    { method: "POST", path: `${at}/labels`, body },
    z.object({ id: z.int() }),
    signal,
  );
  const labels = { labels: [made.id] };
  await askGiteaForText(api, { method: "POST", path: `${at}/issues/${pull}/labels`, body: labels }, signal);
}

/** Lets all runs of strangers that wait for it run, as the button on the pull request's page does. */
export async function approveRun(
  admin: GiteaAdmin,
  repository: Repository,
  run: number,
  signal: AbortSignal,
): Promise<void> {
  const { url, cookie } = await logIn(admin, signal);
  const page = `${url}/${repository.owner}/${repository.name}/actions/runs/${run}/approve`;
  const response = await fetch(page, { method: "POST", redirect: "manual", headers: { cookie }, signal });
  const text = await response.text();
  if (response.status !== 200)
    throw new Error(`approving run ${run}: ${response.status} ${text.slice(0, 200)}`);
}

/** Pushes a commit with one file to `refs/for/main`, which opens a pull request without a fork or a branch. */
export async function pushForReview(
  who: Contributor,
  repository: Repository,
  file: { readonly path: string; readonly text: string },
  signal: AbortSignal,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "agit-"));
  const { host } = new URL(who.url);
  const url = `http://${who.user}:${who.token}@${host}/${repository.owner}/${repository.name}.git`;
  const environment = { PATH: process.env["PATH"], HOME: folder, GIT_TERMINAL_PROMPT: "0" };
  const git = (...args: readonly string[]) =>
    runCommand({ program: "git", args, folder, environment, deadline: 30_000 }, signal);
  try {
    await git("clone", "--quiet", url, ".");
    const script = `mkdir -p "$(dirname "$1")" && printf %s "$2" > "$1"`;
    await runCommand(
      {
        program: "sh",
        args: ["-c", script, "sh", file.path, file.text],
        folder,
        environment,
        deadline: 5_000,
      },
      signal,
    );
    await git("add", ".");
    const author = ["-c", `user.name=${who.user}`, "-c", `user.email=${who.user}@example.invalid`];
    await git(...author, "commit", "--quiet", "--message", "Add a workflow");
    await git("push", "--quiet", "origin", "HEAD:refs/for/main/topic", "-o", "title=Without a fork");
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
