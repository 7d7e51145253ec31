import * as z from "zod";
import type { GiteaApi } from "./client.ts";
import { askGitea } from "./client.ts";

/** A repository, by owner and name. */
export type Repository = { readonly owner: string; readonly name: string };

/** Where the API speaks of the repository. */
export function repositoryPath(repository: Repository): string {
  return `/repos/${encodeURIComponent(repository.owner)}/${encodeURIComponent(repository.name)}`;
}

const repositorySchema = z.object({ name: z.string(), owner: z.object({ login: z.string() }) });

/** Creates a repository of the token's user, with a first commit on `main`. */
export async function createRepository(
  api: GiteaApi,
  options: { readonly name: string; readonly private?: boolean },
  signal: AbortSignal,
): Promise<Repository> {
  const body = {
    name: options.name,
    private: options.private ?? false,
    auto_init: true,
    default_branch: "main",
  };
  const created = await askGitea(
    api,
    { method: "POST", path: "/user/repos", body },
    repositorySchema,
    signal,
  );
  return { owner: created.owner.login, name: created.name };
}

/** A commit, as far as a caller asks for it. */
export type Commit = { readonly sha: string };

const changeSchema = z.object({ commit: z.object({ sha: z.string() }) });

export type Push = {
  /** Texts by path; a file that exists is replaced. */
  readonly files: Readonly<Record<string, string>>;
  readonly message?: string;
  /** `main` unless given. */
  readonly branch?: string;
  /** Puts the commit on this new branch, made from `branch`. */
  readonly newBranch?: string;
};

/** Writes files in one commit, which starts the workflows that are for pushes. */
export async function pushFiles(
  api: GiteaApi,
  repository: Repository,
  push: Push,
  signal: AbortSignal,
): Promise<Commit> {
  const files = Object.entries(push.files).map(([path, text]) => ({
    operation: "upload",
    path,
    content: Buffer.from(text).toString("base64"),
  }));
  const where = {
    branch: push.branch ?? "main",
    ...(push.newBranch === undefined ? {} : { new_branch: push.newBranch }),
  };
  const body = { files, message: push.message ?? "Change files", ...where };
  const path = `${repositoryPath(repository)}/contents`;
  return (await askGitea(api, { method: "POST", path, body }, changeSchema, signal)).commit;
}
