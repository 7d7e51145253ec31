import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { systemClock } from "../../controller/platform/clock.ts";
import { abortable } from "../../controller/platform/signal.ts";
import { awaitJobs, awaitRun } from "../peers/gitea-api/await-run.ts";
import { createRepository, pushFiles } from "../peers/gitea-api/repository.ts";
import type { WorkflowJob } from "../peers/gitea-api/runs.ts";
import type { Report } from "../peers/report.ts";
import { startPlatform, type Platform } from "../quick-start/platform.ts";
import { preparePeers } from "../quick-start/prepare-peers.ts";
import { createWatch, secondsSince, type Watch } from "./watch.ts";

export type DemoOptions = {
  /** Ends when the jobs have; otherwise everything stays up until the signal. */
  readonly exit: boolean;
  /** Writes a line for the person who watches. */
  readonly say: (line: string) => void;
  readonly report: Report;
};

const jobsDeadlineMs = 5 * 60_000;
const tidyDeadlineMs = 60_000;

/**
 * The whole way of a push through real programs. Resolves to whether Gitea says that every job was a success;
 * rejects with what could not be started. Nothing is left running either way.
 */
export async function runDemo({ exit, say, report }: DemoOptions, signal: AbortSignal): Promise<boolean> {
  say("Real peers");
  const peers = await preparePeers(report, signal);
  for (const { name, version, source } of [peers.nats, peers.giteaRunner, peers.gitea])
    say(`  ${name} ${version} (${source})`);
  if (!peers.gitea.webPage.built) say(`  no web page: ${peers.gitea.webPage.reason}`);

  say("\nPlatform");
  const started = systemClock.now();
  const watch = createWatch(say);
  const platform = await startPlatform(
    {
      peers,
      onControllerLine: (line) => {
        watch.onLine(line);
      },
      onStep: (what) => {
        say(`${secondsSince(started)}  ${what}`);
      },
    },
    signal,
  );
  try {
    const { jobs, seconds: took, success } = await push(platform, watch, say, signal);
    const tidy = AbortSignal.any([signal, AbortSignal.timeout(tidyDeadlineMs)]);
    await watch.deleted(jobs.length, tidy);
    if (!exit) await stayUp(platform, say, signal);
    say("\nCleaning up");
    const cleaned = await platform.stop();
    say(
      `${success ? "Success" : "Failure"}: ${jobs.length} jobs, ${took.toFixed(1)} s from push to done; cleaned up: ` +
        `${jobs.length + cleaned.executors} executors, ${cleaned.processes} processes, 1 folder`,
    );
    return success;
  } finally {
    await platform.stop();
  }
}

async function push(platform: Platform, watch: Watch, say: (line: string) => void, signal: AbortSignal) {
  const { admin, gitea } = platform;
  const repository = await createRepository(admin, { name: "hello" }, signal);
  const name = `${repository.owner}/${repository.name}`;
  const files = await exampleFiles();
  say("\nJobs");
  const pushed = watch.begin();
  const { sha } = await pushFiles(admin, repository, { files, message: "Say hello" }, signal);
  say(`${secondsSince(pushed)}  pushed ${sha.slice(0, 10)} to ${gitea.url}/${name}`);
  const run = await awaitRun(admin, repository, { sha, deadlineMs: jobsDeadlineMs }, signal);
  const done = (jobs: readonly WorkflowJob[]) =>
    jobs.length > 0 && jobs.every(({ status }) => status === "completed");
  const jobs = await awaitJobs(
    admin,
    repository,
    { run: run.id, fits: done, deadlineMs: jobsDeadlineMs },
    signal,
  );
  const took = (systemClock.now() - pushed) / 1000;
  const shown = jobs.map((job) => `${job.name} ${job.conclusion}`).join(", ");
  say(`${secondsSince(pushed)}  Gitea says: ${shown}`);
  return { jobs, seconds: took, success: jobs.every(({ conclusion }) => conclusion === "success") };
}

/** The files of the example repository by path. */
async function exampleFiles(): Promise<Readonly<Record<string, string>>> {
  const folder = path.join(import.meta.dirname, "example");
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name));
  const texts = files.map(
    async (file) => [path.relative(folder, file), await readFile(file, "utf8")] as const,
  );
  return Object.fromEntries(await Promise.all(texts));
}

async function stayUp({ gitea, admin, folder }: Platform, say: (line: string) => void, signal: AbortSignal) {
  say("\nStill up, until Ctrl-C");
  say(`  Gitea          ${gitea.url}/demo/hello/actions`);
  say(`  login          ${admin.user} / ${admin.password}`);
  say(`  controller     ${path.join(folder, "controller.log")}`);
  say(
    `  push anything  git clone http://${admin.user}:${admin.password}@${new URL(gitea.url).host}/demo/hello`,
  );
  await abortable(new Promise<void>(() => undefined), signal).catch(() => undefined);
}
