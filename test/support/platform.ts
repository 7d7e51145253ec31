import { after, afterEach, before } from "mocha";
import { awaitJobs, awaitRun } from "../../scripts/peers/gitea-api/await-run.ts";
import { createRepository, pushFiles, type Repository } from "../../scripts/peers/gitea-api/repository.ts";
import { readJobLog, type WorkflowJob } from "../../scripts/peers/gitea-api/runs.ts";
import { createReport } from "../../scripts/peers/report.ts";
import { prepareSpire } from "../../scripts/peers/start-spire.ts";
import type { ControllerLine } from "../../scripts/quick-start/controller-process.ts";
import { startPlatform, type Platform, type PlatformOptions } from "../../scripts/quick-start/platform.ts";
import { preparePeers } from "../../scripts/quick-start/prepare-peers.ts";

/** Everything real on loopback, for one test file. */
export type PlatformUnderTest = {
  readonly platform: Platform;
  /** What the controller has logged so far. */
  readonly lines: readonly ControllerLine[];
  /** The first line, logged already or yet to come, that fits. Rejects after 60 s. */
  line(fits: (line: ControllerLine) => boolean): Promise<ControllerLine>;
  /** Pushes a workflow into a new repository of this name; resolves with how to wait for its jobs. */
  push(name: string, workflow: string): Promise<PushedRun>;
};

export type PushedRun = {
  readonly repository: Repository;
  /** All jobs, as soon as they fit; completed ones unless given. Rejects after 90 s. */
  jobs(fits?: (jobs: readonly WorkflowJob[]) => boolean): Promise<readonly WorkflowJob[]>;
  /** A job's log, each line without its time. */
  log(job: WorkflowJob): Promise<readonly string[]>;
};

/** The first time, Gitea is compiled, and SPIRE where it is asked for. */
const startMs = 60 * 60_000;
const jobsMs = 90_000;
const lineMs = 60_000;

/** What a failed test is understood by: the last lines, and before them those that complain of one job. */
function telling(lines: readonly ControllerLine[]): readonly ControllerLine[] {
  const last = lines.slice(-60);
  const complaints = lines
    .slice(0, -60)
    .filter(({ level, assignment }) => level !== "info" && assignment !== undefined);
  return [...complaints.slice(-60), ...last];
}

/** Registers hooks that run one platform for the surrounding file or `describe`. */
export function usePlatform(
  options: Omit<PlatformOptions, "peers" | "onControllerLine"> = {},
): PlatformUnderTest {
  let started: Platform | undefined;
  const lines: ControllerLine[] = [];
  const waiting = new Set<(line: ControllerLine) => void>();
  const get = () => {
    if (started === undefined) throw new Error("the platform of this test is not started yet");
    return started;
  };
  before("start Gitea, NATS and the controller", async function () {
    this.timeout(startMs);
    const signal = AbortSignal.timeout(startMs);
    const report = createReport();
    const peers = await preparePeers(report, signal);
    const spire =
      options.spire === undefined
        ? {}
        : { spire: { peers: await prepareSpire(report, signal), ...options.spire } };
    const onControllerLine = (line: ControllerLine) => {
      lines.push(line);
      for (const hear of waiting) hear(line);
    };
    started = await startPlatform({ ...options, ...spire, peers, onControllerLine }, signal);
  });
  afterEach("tell what the controller logged", function () {
    if (this.currentTest?.state !== "failed") return;
    for (const line of telling(lines)) process.stderr.write(`${JSON.stringify(line)}\n`);
  });
  after("stop all of it", async function () {
    this.timeout(60_000);
    await started?.stop();
  });
  return {
    get platform() {
      return get();
    },
    lines,
    line: async (fits) => {
      const found = lines.find((line) => fits(line));
      if (found !== undefined) return found;
      const { promise, resolve, reject } = Promise.withResolvers<ControllerLine>();
      const hear = (line: ControllerLine) => {
        if (fits(line)) resolve(line);
      };
      waiting.add(hear);
      const late = setTimeout(() => reject(new Error(`no such line came within ${lineMs / 1000} s`)), lineMs);
      try {
        return await promise;
      } finally {
        clearTimeout(late);
        waiting.delete(hear);
      }
    },
    push: async (name, workflow) => {
      const { admin } = get();
      const soon = () => AbortSignal.timeout(jobsMs);
      const repository = await createRepository(admin, { name }, soon());
      const files = { ".gitea/workflows/test.yml": workflow };
      const { sha } = await pushFiles(admin, repository, { files }, soon());
      const run = await awaitRun(admin, repository, { sha, deadlineMs: jobsMs }, soon());
      const completed = (jobs: readonly WorkflowJob[]) =>
        jobs.length > 0 && jobs.every(({ status }) => status === "completed");
      return {
        repository,
        jobs: (fits = completed) =>
          awaitJobs(admin, repository, { run: run.id, fits, deadlineMs: jobsMs }, soon()),
        log: async (job) => {
          const text = await readJobLog(admin, repository, job.id, soon());
          return text.split("\n").map((line) => line.replace(/^\S+Z /, ""));
        },
      };
    },
  };
}
