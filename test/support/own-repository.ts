import { appendFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { GiteaAdmin } from "../../scripts/peers/gitea-api/admin.ts";
import type { Repository } from "../../scripts/peers/gitea-api/repository.ts";
import { runCommand } from "../../scripts/peers/run-command.ts";

const top = path.join(import.meta.dirname, "../..");
const deadlineMs = 60_000;

export type PushOptions = {
  /** Changes what is committed; gets the folder with all files. */
  readonly change?: (tree: string) => Promise<void>;
  /** Of the commit, in seconds since the epoch; now unless given. */
  readonly time?: number;
};

/**
 * Puts this repository, as its last commit has it, on `main` of an empty one, without starting a workflow. Its own history stays out:
 * the clone that tests run in may have none. npm trusts there whom it trusts here: jobs do not have our environment.
 */
export async function pushThisRepository(
  admin: GiteaAdmin,
  repository: Repository,
  { change, time }: PushOptions,
  signal: AbortSignal,
): Promise<void> {
  const folder = await mkdtemp(path.join(tmpdir(), "own-"));
  const date = `@${time} +0000`;
  const times = time === undefined ? {} : { GIT_AUTHOR_DATE: date, GIT_COMMITTER_DATE: date };
  const environment = { PATH: process.env["PATH"], HOME: folder, GIT_TERMINAL_PROMPT: "0", ...times };
  const run = (program: string, args: readonly string[], where = folder) =>
    runCommand({ program, args, folder: where, environment, deadline: deadlineMs }, signal);
  const git = (...args: readonly string[]) => run("git", args);
  const { host } = new URL(admin.url);
  const url = `http://${admin.user}:${admin.token}@${host}/${repository.owner}/${repository.name}.git`;
  try {
    const archive = path.join(folder, "archive.tar");
    await run("git", ["-c", `safe.directory=${top}`, "archive", "--output", archive, "HEAD"], top);
    await git("init", "--quiet", "--initial-branch", "main", "tree");
    await run("tar", ["--extract", "--file", archive, "--directory", "tree"]);
    const authority = process.env["NODE_EXTRA_CA_CERTS"];
    if (authority !== undefined)
      await appendFile(path.join(folder, "tree/.npmrc"), `\ncafile=${authority}\n`);
    await change?.(path.join(folder, "tree"));
    const author = ["-c", "user.name=test", "-c", "user.email=test@example.invalid"];
    await git("-C", "tree", "add", "--all", "--force");
    await git("-C", "tree", ...author, "commit", "--quiet", "--message", "This repository [skip ci]");
    await git("-C", "tree", "push", "--quiet", "--force", url, "main");
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
