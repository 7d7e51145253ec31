import * as z from "zod";
import { type Clock, systemClock } from "../../controller/platform/clock.ts";
import { askGitea, type GiteaApi } from "../../scripts/peers/gitea-api/client.ts";
import type { Repository } from "../../scripts/peers/gitea-api/repository.ts";

const everyMs = 1_000;
const pageSize = 50;

const pageSchema = z.object({
  workflow_runs: z.array(
    z.object({ id: z.int(), status: z.string(), repository: z.object({ full_name: z.string() }) }),
  ),
});

/** All runs of a Gitea, asked for once however many wait for theirs. */
export type RunBoard = {
  /** Resolves when the repository has so many runs and all are completed. */
  completed(repository: Repository, runs: number, signal: AbortSignal): Promise<void>;
};

export function createRunBoard(admin: GiteaApi, clock: Clock = systemClock): RunBoard {
  let latest: { readonly at: number; readonly statuses: Promise<Statuses> } | undefined;
  /** Never from before `since`: what the caller has just done is to be seen. */
  const look = (since: number) => {
    if (latest === undefined || latest.at < since || clock.now() - latest.at >= everyMs)
      latest = { at: clock.now(), statuses: readAll(admin) };
    return latest.statuses;
  };
  return {
    completed: async ({ owner, name }, runs, signal) => {
      const since = clock.now();
      for (;;) {
        const own = [...((await look(since)).get(`${owner}/${name}`)?.values() ?? [])];
        if (own.length >= runs && own.every((status) => status === "completed")) return;
        await clock.sleep(everyMs, signal);
      }
    },
  };
}

/** By repository, by run: new runs move older ones from page to page while we turn them. */
type Statuses = ReadonlyMap<string, ReadonlyMap<number, string>>;

async function readAll(admin: GiteaApi): Promise<Statuses> {
  const statuses = new Map<string, Map<number, string>>();
  for (let page = 1; ; page++) {
    const request = `/admin/actions/runs?limit=${pageSize}&page=${page}`;
    const answer = await askGitea(
      admin,
      { method: "GET", path: request },
      pageSchema,
      AbortSignal.timeout(60_000),
    );
    for (const { id, status, repository } of answer.workflow_runs) {
      const own = statuses.get(repository.full_name) ?? new Map<number, string>();
      statuses.set(repository.full_name, own.set(id, status));
    }
    if (answer.workflow_runs.length < pageSize) return statuses;
  }
}
