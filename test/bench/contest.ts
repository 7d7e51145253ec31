import path from "node:path";
import { awaitJobs, awaitRun } from "../../scripts/peers/gitea-api/await-run.ts";
import { createRepository, pushFiles, type Repository } from "../../scripts/peers/gitea-api/repository.ts";
import { createReport } from "../../scripts/peers/report.ts";
import { startPlatform, type Platform } from "../../scripts/quick-start/platform.ts";
import { preparePeers } from "../../scripts/quick-start/prepare-peers.ts";
import { startOfficialRunner } from "../support/official-runner.ts";

/** One of the two that run the same jobs on the same Gitea. */
export type Contestant = {
  readonly name: "gitea-dynamic-runner" | "gitea-runner daemon";
  /** Pushes a workflow with this one job; resolves to the milliseconds from the push to the job's end in Gitea. */
  run(steps: string): Promise<number>;
};

export type Contest = AsyncDisposable & {
  readonly platform: Platform;
  readonly contestants: readonly [Contestant, Contestant];
};

const startMs = 30 * 60_000;
const jobMs = 10 * 60_000;

/** Our platform and the official daemon with its default polling, side by side on one Gitea, both idle. */
export async function startContest(): Promise<Contest> {
  await using stack = new AsyncDisposableStack();
  const signal = AbortSignal.timeout(startMs);
  const peers = await preparePeers(createReport(), signal);
  const platform = stack.use(await startPlatform({ peers }, signal));
  const official = await startOfficialRunner(
    {
      gitea: platform.gitea,
      peer: peers.giteaRunner,
      folder: path.join(platform.folder, "official"),
      label: "official",
      capacity: 1,
      fetchInterval: "2s",
    },
    signal,
  );
  stack.defer(() => official.stop());
  const contestants = [
    await createContestant(platform, "gitea-dynamic-runner", "[self-hosted, pod]"),
    await createContestant(platform, "gitea-runner daemon", "[official]"),
  ] as const;
  const parts = stack.move();
  return { platform, contestants, [Symbol.asyncDispose]: () => parts.disposeAsync() };
}

async function createContestant(
  { admin }: Platform,
  name: Contestant["name"],
  runsOn: string,
): Promise<Contestant> {
  const repository: Repository = await createRepository(
    admin,
    { name: name.replaceAll(" ", "-") },
    AbortSignal.timeout(jobMs),
  );
  let pushes = 0;
  return {
    name,
    run: async (steps) => {
      const signal = AbortSignal.timeout(jobMs);
      const workflow = `# push ${++pushes}\non: push\njobs:\n  job:\n    runs-on: ${runsOn}\n    steps:\n${steps}`;
      const files = { ".gitea/workflows/bench.yml": workflow };
      const { sha } = await pushFiles(admin, repository, { files }, signal);
      const pushed = performance.now();
      const run = await awaitRun(admin, repository, { sha, deadlineMs: jobMs }, signal);
      const [job] = await awaitJobs(
        admin,
        repository,
        {
          run: run.id,
          deadlineMs: jobMs,
          fits: (jobs) => jobs.length === 1 && jobs.every(({ status }) => status === "completed"),
        },
        signal,
      );
      if (job?.conclusion !== "success") throw new Error(`${name}: the job ended with ${job?.conclusion}`);
      return performance.now() - pushed;
    },
  };
}
