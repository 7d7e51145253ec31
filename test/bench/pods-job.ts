import { readFile } from "node:fs/promises";
import path from "node:path";
import * as z from "zod";
import { systemClock } from "../../controller/platform/clock.ts";
import { awaitJobs } from "../../scripts/peers/gitea-api/await-run.ts";
import { askGitea } from "../../scripts/peers/gitea-api/client.ts";
import {
  createRepository,
  pushFiles,
  type Repository,
  repositoryPath,
} from "../../scripts/peers/gitea-api/repository.ts";
import { readJobLog, type WorkflowJob } from "../../scripts/peers/gitea-api/runs.ts";
import type { ControllerLine } from "../../scripts/quick-start/controller-process.ts";
import { eventually } from "../support/eventually.ts";
import { summary } from "./figures.ts";
import { containerBegin } from "./pods-process.ts";
import type { BenchController, PodsBench } from "./pods-cluster.ts";

/** What happens from the dispatch of a workflow until its job says something; each by its time since the epoch. */
const moments = [
  "dispatched",
  "fetched",
  "stored",
  "created",
  "scheduled",
  "container",
  "asked",
  "svid",
  "reached",
  "claimed",
  "row",
] as const;
export type StartTimes = Readonly<Record<(typeof moments)[number], number>> & {
  /** When the registration entry was made, which is done beside the rest. */
  readonly bound: number;
  /** When the container's first process began, to 10 ms. */
  readonly begun: number;
  /** How long `gitea-job-started` took, which begins when the SVID is there. */
  readonly readyMs: number;
  /** From the start of dockerd until it was ready; NaN where the image has none. */
  readonly dockerdMs: number;
};

const jobMs = 120_000;
const soon = () => AbortSignal.timeout(jobMs);

/** Long enough for its Pod's log to be read. */
const singleJob = "    steps:\n      - run: |\n          echo the first row\n          sleep 3\n";

const longJob = "    steps:\n      - run: sleep 40\n";

/** A repository whose workflows are for `workflow_dispatch`: `single`, `long`, `vm`, and one for each size of a matrix. */
export async function createWorkflows(
  { platform: { admin } }: PodsBench,
  sizes: readonly number[] = [],
): Promise<Repository> {
  const repository = await createRepository(admin, { name: "bench" }, soon());
  const workflow = (rest: string) =>
    `on: workflow_dispatch\njobs:\n  job:\n    runs-on: [self-hosted, pod]\n${rest}`;
  const matrix = (size: number) =>
    `    strategy:\n      matrix:\n        n: [${Array.from({ length: size }, (_, n) => n).join(", ")}]\n`;
  const files = Object.fromEntries([
    [".gitea/workflows/single.yml", workflow(singleJob)],
    [".gitea/workflows/long.yml", workflow(longJob)],
    [".gitea/workflows/vm.yml", workflow(singleJob).replace("self-hosted, pod", "self-hosted, vm")],
    ...sizes.map((size) => [`.gitea/workflows/${size}.yml`, workflow(matrix(size) + singleJob)]),
  ]);
  await pushFiles(admin, repository, { files }, soon());
  return repository;
}

/** Starts a workflow; resolves to its run. */
export async function dispatch(
  { platform: { admin } }: PodsBench,
  repository: Repository,
  workflow: string,
): Promise<number> {
  const file = `${repositoryPath(repository)}/actions/workflows/${workflow}.yml/dispatches?return_run_details=true`;
  const schema = z.object({ workflow_run_id: z.int() });
  const request = { method: "POST", path: file, body: { ref: "main" } } as const;
  return (await askGitea(admin, request, schema, soon())).workflow_run_id;
}

/** Resolves to the only job of a run when it has succeeded. */
export async function untilSuccess(
  { platform: { admin } }: PodsBench,
  repository: Repository,
  run: number,
): Promise<WorkflowJob> {
  const completed = (jobs: readonly WorkflowJob[]) =>
    jobs.length > 0 && jobs.every(({ status }) => status === "completed");
  const [job] = await awaitJobs(admin, repository, { run, fits: completed, deadlineMs: jobMs }, soon());
  if (job?.conclusion !== "success") throw new Error(`the job of run ${run} ended with ${job?.conclusion}`);
  return job;
}

/** Runs one job until nothing is left of it. No other job for a Pod may be fetched meanwhile. */
export async function timeJob(
  bench: PodsBench,
  controller: BenchController,
  repository: Repository,
): Promise<StartTimes> {
  const { platform, tenant, gitea, seen } = bench;
  const { admin, kubernetes } = platform;
  const linesBefore = controller.lines.length;
  const isNew = (line: ControllerLine) => controller.lines.indexOf(line) >= linesBefore;
  const dispatched = systemClock.now();
  const run = await dispatch(bench, repository, "single");
  const isStored = (line: ControllerLine) => line.msg === "task stored" && line["backend"] === "pod";
  const storedLine = await controller.line((line) => isStored(line) && isNew(line), jobMs);
  const { assignment } = storedLine;
  const isOf = (line: LogLine) => line["assignment"] === assignment;
  const created = await controller.line((line) => line["event"] === "executor_created" && isOf(line), jobMs);
  const pod = String(created["executor"]);
  let podLog = "";
  const logPath = `/api/v1/namespaces/${tenant.namespace}/pods/${pod}/log?container=executor`;
  const isClaimed = async () => {
    podLog = (await kubernetes.api.ask("GET", logPath, soon())).text;
    return podLog.includes('"task claimed"');
  };
  await eventually(`${pod} claims its task`, isClaimed, jobMs);
  await eventually(`${pod} has a container`, () => seen.times.get(pod)?.container !== undefined, jobMs);
  const begun = await containerBegin(seen.times.get(pod)?.container ?? "");
  const stamped = (await kubernetes.api.ask("GET", `${logPath}&timestamps=true`, soon())).text.split("\n");
  const stamp = (text: string) =>
    Date.parse(stamped.find((line) => line.includes(text))?.split(" ")[0] ?? "");
  const lineOf = (message: string) => linesOf(podLog).find(({ msg }) => msg === message);
  const said = (message: string) => timeOf(lineOf(message));
  const job = await untilSuccess(bench, repository, run);
  const row = (await readJobLog(admin, repository, job.id, soon()))
    .split("\n")
    .find((line) => line.endsWith("Z the first row"));
  await eventually(`${pod} is gone`, () => !seen.pods.has(pod), jobMs);
  const stored = timeOf(storedLine);
  const known = seen.times.get(pod);
  return {
    dispatched,
    fetched: gitea.handedOutBefore(stored),
    stored,
    created: known?.created ?? NaN,
    bound: timeOf(controller.lines.find((line) => line["event"] === "identity_bound" && isOf(line))),
    scheduled: known?.scheduled ?? NaN,
    container: await containerStart(platform.folder, known?.container ?? ""),
    begun,
    readyMs: Number(lineOf("job is made ready")?.["ms"] ?? 0),
    dockerdMs: stamp(" is ready: storage driver") - stamp("setup-job-docker: waiting for dockerd"),
    asked: said("x509-svid asked for"),
    svid: said("x509-svid received"),
    reached: said("facade reached"),
    claimed: said("task claimed"),
    row: Date.parse(row?.split(" ")[0] ?? ""),
  };
}

/** From each moment to the next, and from the first to the last. */
export function tellStarts(starts: readonly StartTimes[]): void {
  for (const [index, moment] of moments.slice(1).entries()) {
    const before = moments[index] ?? "dispatched";
    console.log(`| ${before} → ${moment} | ${summary(starts.map((one) => one[moment] - one[before]))} s |`);
  }
  console.log(`| created → entry made | ${summary(starts.map((one) => one.bound - one.created))} s |`);
  console.log(`| in all | ${summary(starts.map(({ row, dispatched }) => row - dispatched))} s |`);
}

/** When the runtime said that the container runs: the kubelet notices up to a second later. */
async function containerStart(folder: string, id: string): Promise<number> {
  const log = await readFile(path.join(folder, "k8s/logs/containerd.log"), "utf8");
  const line = log.split("\n").find((one) => one.includes(`StartContainer for \\"${id}\\" returns`));
  return Date.parse(/time="([^"]+)"/.exec(line ?? "")?.[1] ?? "");
}

type LogLine = { readonly [field: string]: unknown };

function linesOf(text: string): readonly LogLine[] {
  return text
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as LogLine);
}

function timeOf(line: LogLine | undefined): number {
  return Date.parse(String(line?.["time"]));
}
