import assert from "node:assert/strict";
import { chmod, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import * as z from "zod";
import { askGitea, type GiteaApi } from "../../../scripts/peers/gitea-api/client.ts";
import {
  createRepository,
  pushFiles,
  type Repository,
  repositoryPath,
} from "../../../scripts/peers/gitea-api/repository.ts";
import { listJobs, readJobLog, type WorkflowJob } from "../../../scripts/peers/gitea-api/runs.ts";
import { eventually } from "../eventually.ts";

const rows = 60;

/** A workflow of so many equal jobs that say that they begin outside of their executor, and count in their log. */
function workflow(jobs: number): string {
  return `
on:
  workflow_dispatch:
    inputs:
      begun:
        type: string
jobs:
  numbered:
    runs-on: [self-hosted, pod]
    strategy:
      matrix:
        n: [${numbersTo(jobs).join(", ")}]
    steps:
      - run: |
          echo "\${{ matrix.n }}" >> "\${{ inputs.begun }}"
          for i in $(seq 1 ${rows / 2}); do echo "row $i"; done
      - run: for i in $(seq ${rows / 2 + 1} ${rows}); do echo "row $i"; done
`;
}

/** One run of such a workflow. */
export type Batch = {
  /** The numbers of the jobs that have begun, as often as they have. */
  begun(): Promise<readonly number[]>;
  /** Waits until all jobs but `lost` ones are over. */
  over(lost?: number): Promise<readonly WorkflowJob[]>;
  /** Each of these jobs has succeeded, has begun once, and has all its rows in order. */
  succeeded(jobs: readonly WorkflowJob[]): Promise<void>;
};

export type NumberedJobs = {
  /** Starts a run of so many jobs. */
  dispatch(jobs: number): Promise<Batch>;
};

const overMs = 200_000;
/** Gitea takes its time for a list of forty jobs. */
const askEveryMs = 300;
const soon = () => AbortSignal.timeout(30_000);

/** Makes a repository for these sizes of runs. In `shared`, which every user may write to, jobs say that they begin. */
export async function createNumberedJobs(
  admin: GiteaApi,
  shared: string,
  sizes: readonly number[],
): Promise<NumberedJobs> {
  const repository = await createRepository(admin, { name: "numbered" }, soon());
  const files = Object.fromEntries(sizes.map((jobs) => [`.gitea/workflows/${jobs}.yml`, workflow(jobs)]));
  await pushFiles(admin, repository, { files }, soon());
  let batches = 0;
  return {
    dispatch: async (jobs) => {
      const marks = path.join(shared, `batch-${++batches}`);
      await writeFile(marks, "");
      await chmod(marks, 0o666);
      const { workflow_run_id: run } = await askGitea(
        admin,
        {
          method: "POST",
          path: `${repositoryPath(repository)}/actions/workflows/${jobs}.yml/dispatches?return_run_details=true`,
          body: { ref: "main", inputs: { begun: marks } },
        },
        z.object({ workflow_run_id: z.int() }),
        soon(),
      );
      return batchOf(admin, repository, run, marks);
    },
  };
}

function batchOf(admin: GiteaApi, repository: Repository, run: number, marks: string): Batch {
  const begun = async () =>
    (await readFile(marks, "utf8"))
      .split("\n")
      .filter((line) => line !== "")
      .map(Number);
  return {
    begun,
    over: async (lost = 0) => {
      let seen: readonly WorkflowJob[] = [];
      const isOver = async () => {
        seen = await listJobs(admin, repository, run, soon());
        return seen.length > 0 && seen.filter(({ status }) => status !== "completed").length <= lost;
      };
      try {
        await eventually(`the end of all jobs of run ${run} but ${lost}`, isOver, overMs, askEveryMs);
      } catch (error) {
        const states = seen.map(({ name, status, conclusion }) => `${name} ${conclusion ?? status}`);
        throw new Error(`${states.join(", ")}; begun: ${(await begun()).join()}`, { cause: error });
      }
      return seen;
    },
    succeeded: async (ended) => {
      const logs = new Map<WorkflowJob, string>();
      for (const job of ended) logs.set(job, await readJobLog(admin, repository, job.id, soon()));
      const failed = ended.filter(({ conclusion }) => conclusion !== "success");
      const told = failed.map((job) => `${job.name} ${job.conclusion}: …${logs.get(job)?.slice(-600)}`);
      assert.deepEqual(told, []);
      const numbers = ended.map(numberOf).toSorted((a, b) => a - b);
      const own = (await begun()).filter((number) => numbers.includes(number));
      assert.deepEqual(
        own.toSorted((a, b) => a - b),
        numbers,
        "each job begins once",
      );
      for (const [job, log] of logs) {
        const said = [...log.matchAll(/^\S+Z row (\d+)$/gm)].map(([, number]) => Number(number));
        assert.deepEqual(said, numbersTo(rows), `the rows of ${job.name}`);
      }
    },
  };
}

/** Gitea names a job of a matrix by its value: `numbered (3)`. */
function numberOf({ name }: WorkflowJob): number {
  return Number(/\((\d+)\)$/.exec(name)?.[1]);
}

function numbersTo(last: number): number[] {
  return Array.from({ length: last }, (_, index) => index + 1);
}
