import assert from "node:assert/strict";
import { awaitJobs, awaitRun } from "../../../scripts/peers/gitea-api/await-run.ts";
import type { GiteaAdmin } from "../../../scripts/peers/gitea-api/admin.ts";
import { askGiteaForText } from "../../../scripts/peers/gitea-api/client.ts";
import {
  createRepository,
  pushFiles,
  type Repository,
  repositoryPath,
} from "../../../scripts/peers/gitea-api/repository.ts";
import {
  dispatchWorkflow,
  listRuns,
  readJobLog,
  type WorkflowJob,
  type WorkflowRun,
} from "../../../scripts/peers/gitea-api/runs.ts";
import { eventually } from "../eventually.ts";
import { pushThisRepository } from "../own-repository.ts";
import { changeForThisMachine } from "./for-this-machine.ts";
import { epoch } from "./use-images.ts";

export type PublisherOptions = {
  /** As `changeForThisMachine` takes them. */
  readonly bases: Readonly<Record<string, string>>;
  /** What an operator gives each repository. */
  readonly variables: Readonly<Record<string, string>>;
};

/** How the only job of a run ended, and the commit that it was of. */
export type PublishRun = { readonly job: WorkflowJob; readonly log: string; readonly sha: string };

/** Who has our repository in a Gitea, and its images published there. */
export type Publisher = Pick<PublisherOptions, "bases"> & {
  /** Makes one; no workflow has run there. */
  repository(name: string): Promise<Repository>;
  byHand(repository: Repository, workflow: string): Promise<WorkflowRun>;
  /** Changes that file of the repository, which is to start the workflow. */
  push(repository: Repository, workflow: string, file: string): Promise<WorkflowRun>;
  ended(repository: Repository, run: WorkflowRun): Promise<PublishRun>;
};

const startMs = 60_000;
const jobMs = 900_000;
const { signal } = new AbortController();

export function createPublisher(admin: GiteaAdmin, { bases, variables }: PublisherOptions): Publisher {
  const authorities = process.env["NODE_EXTRA_CA_CERTS"];
  const machine = { bases, ...(authorities === undefined ? {} : { authorities }) };
  const tell = async (method: "POST" | "PUT", repository: Repository, what: string, body?: object) => {
    const path = `${repositoryPath(repository)}/actions/${what}`;
    await askGiteaForText(admin, { method, path, body }, signal);
  };
  return {
    bases,
    repository: async (name) => {
      const repository = await createRepository(admin, { name }, signal);
      const change = (tree: string) => changeForThisMachine(tree, machine);
      await pushThisRepository(admin, repository, { change, time: epoch }, signal);
      for (const [variable, value] of Object.entries(variables))
        await tell("POST", repository, `variables/${variable}`, { value });
      // Pushes are for what publishes.
      await tell("PUT", repository, "workflows/test.yml/disable");
      return repository;
    },
    byHand: async (repository, workflow) => {
      await dispatchWorkflow(admin, repository, { workflow }, signal);
      let found: WorkflowRun | undefined;
      await eventually(`a run of ${workflow}`, async () => {
        const runs = await listRuns(admin, repository, signal);
        found = runs.find(({ path }) => path.startsWith(`${workflow}@`));
        return found !== undefined;
      });
      assert.ok(found !== undefined);
      return found;
    },
    push: async (repository, workflow, file) => {
      const { sha } = await pushFiles(admin, repository, { files: { [file]: "changed\n" } }, signal);
      const fits = ({ path }: WorkflowRun) => path.startsWith(`${workflow}@`);
      return await awaitRun(admin, repository, { sha, fits, deadlineMs: startMs }, signal);
    },
    ended: async (repository, { id, head_sha: sha }) => {
      const fits = (jobs: readonly WorkflowJob[]) =>
        jobs.length > 0 && jobs.every(({ status }) => status === "completed");
      const [job, ...more] = await awaitJobs(admin, repository, { run: id, fits, deadlineMs: jobMs }, signal);
      assert.ok(job !== undefined && more.length === 0);
      return { job, log: await readJobLog(admin, repository, job.id, signal), sha };
    },
  };
}
