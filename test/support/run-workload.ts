import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import type { Lane } from "./lane.ts";
import type { GiteaAdmin } from "../../scripts/peers/gitea-api/admin.ts";
import { askGiteaForText } from "../../scripts/peers/gitea-api/client.ts";
import {
  createRepository,
  pushFiles,
  type Repository,
  repositoryPath,
} from "../../scripts/peers/gitea-api/repository.ts";
import type { WebSession } from "../../scripts/peers/gitea-api/web-session.ts";
import type { RunBoard } from "./run-board.ts";
import { seeWorkload } from "./see-workload.ts";
import { handOn } from "./workload-hand.ts";
import type { Hand, Seen, Workload } from "./workload.ts";

const workloads = path.join(import.meta.dirname, "../e2e/workloads");

/** Who is to run it. */
export type Place = {
  /** Begins the names of the repositories. */
  readonly name: string;
  /** As `runs-on` writes it. */
  readonly runsOn: string;
  readonly admin: GiteaAdmin;
  readonly session: WebSession;
  readonly board: RunBoard;
  /** Repositories are made one after the other: a small Gitea gets slow by many at once. */
  readonly making: Lane;
};

export type Outcome = { readonly seen: Seen; readonly hand: Hand };

/** Pushes a workload into a new private repository, does what belongs to it, and reads what became of it. */
export async function runWorkload(place: Place, workload: Workload, signal: AbortSignal): Promise<Outcome> {
  const files = { ...(await repositoryFiles(workload.name, place.runsOn)), ...workload.files };
  const hand = await beginWorkload(place, { ...workload, files }, signal);
  await workload.act?.(hand);
  await place.board.completed(hand.repository, workload.runs ?? 1, signal);
  return { seen: await seeWorkload(hand), hand };
}

/** Pushes these files into a new private repository. */
export async function beginWorkload(
  place: Omit<Place, "runsOn" | "board">,
  workload: Pick<Workload, "name" | "files" | "secrets" | "variables">,
  signal: AbortSignal,
): Promise<Hand> {
  const repository = await place.making(() => makeRepository(place, workload, signal));
  return handOn(place, repository, signal);
}

async function makeRepository(
  place: Pick<Place, "name" | "admin">,
  workload: Pick<Workload, "name" | "files" | "secrets" | "variables">,
  signal: AbortSignal,
): Promise<Repository> {
  const { admin } = place;
  const name = `${place.name}-${workload.name}`;
  const repository = await createRepository(admin, { name, private: true }, signal);
  const tell = async (method: "PUT" | "POST", what: string, body: unknown) => {
    const request = `${repositoryPath(repository)}/actions/${what}`;
    await askGiteaForText(admin, { method, path: request, body }, signal);
  };
  for (const [key, data] of Object.entries(workload.secrets ?? {}))
    await tell("PUT", `secrets/${key}`, { data });
  for (const [key, value] of Object.entries(workload.variables ?? {}))
    await tell("POST", `variables/${key}`, { value });
  await pushFiles(
    admin,
    repository,
    { files: workload.files ?? {}, message: `Begin ${workload.name}` },
    signal,
  );
  return repository;
}

async function repositoryFiles(name: string, runsOn: string): Promise<Record<string, string>> {
  const root = path.join(workloads, name, "repository");
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const texts = files.map(async (entry) => {
    const file = path.join(entry.parentPath, entry.name);
    return [path.relative(root, file), (await readFile(file, "utf8")).replaceAll("RUNS_ON", runsOn)];
  });
  return Object.fromEntries((await Promise.all(texts)) as [string, string][]);
}
