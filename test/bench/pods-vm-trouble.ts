import assert from "node:assert/strict";
import { listJobs } from "../../scripts/peers/gitea-api/runs.ts";
import { prepareOpenSandboxLab } from "../../scripts/peers/opensandbox/prepare-lab.ts";
import { createReport } from "../../scripts/peers/report.ts";
import { writeSecret } from "../../scripts/quick-start/secrets.ts";
import type { ControllerLine } from "../../scripts/quick-start/controller-process.ts";
import { startLab } from "../support/opensandbox/use-opensandbox.ts";
import { createIdleVms } from "../support/opensandbox/vm-host.ts";
import { summary } from "./figures.ts";
import { type BenchController, loadNow, startPodsBench, tellMachine } from "./pods-cluster.ts";
import { createWorkflows, dispatch, type StartTimes, timeJob } from "./pods-job.ts";

// Jobs in Pods of a real cluster while a job for a VM waits and VMs are in trouble of each kind, on a real OpenSandbox server.
// It asserts results, counts and order, which do not depend on time; the times are for whoever reads.
// Arguments: how many jobs each, and a part of the names of the troubles that are wanted, all unless given.
const [, , count = "5", wanted = ""] = process.argv;
const jobs = Number(count);
const seenMs = 120_000;

type Trouble = {
  readonly name: string;
  readonly changed?: Readonly<Record<string, string>>;
  readonly begin?: () => unknown;
  readonly end?: () => unknown;
  /** What the controller says of it. */
  readonly says: RegExp;
};

tellMachine();
const signal = AbortSignal.timeout(90 * 60_000);
await using stack = new AsyncDisposableStack();
const bench = stack.use(await startPodsBench({ capacity: 2 }));
const lab = await startLab(await prepareOpenSandboxLab({ report: createReport() }, signal), {}, stack);
const { server } = lab;
const pool = stack.use(await lab.pool({ pool: "ci-vm", capacity: 0, host: createIdleVms() }));
const wrongKey = await writeSecret(lab.folder.path, "wrong-key", "wrong");
const repository = await createWorkflows(bench);

const vms = {
  COMPONENTS: "scheduler,pod-worker,vm-worker",
  OPENSANDBOX_API: server.url.href,
  OPENSANDBOX_API_KEY_FILE: server.keyFile,
  OPENSANDBOX_POOL: pool.pool,
};
const troubles: readonly Trouble[] = [
  { name: "pool full", says: /429 KUBERNETES::POOL_CAPACITY_EXHAUSTED|has 0 places|has no place/ },
  { name: "pool missing", changed: { OPENSANDBOX_POOL: "not-there" }, says: /does not exist/ },
  {
    name: "wrong key",
    changed: { OPENSANDBOX_API_KEY_FILE: wrongKey },
    says: /the sandbox server refuses our key/,
  },
  {
    name: "server paused",
    begin: () => server.component.pause(),
    end: () => server.component.resume(),
    says: /no answer within/,
  },
  {
    name: "server down",
    begin: () => server.stop(),
    end: () => server.component.start(signal),
    says: /ECONNREFUSED/,
  },
];

/** Runs the jobs, one by one, under a controller of their own; resolves with what each took. */
async function measure(
  name: string,
  changed: Readonly<Record<string, string>>,
  says?: RegExp,
): Promise<void> {
  const controller = await bench.start({ changed });
  try {
    if (says !== undefined) await untilSaid(controller, says);
    const from = controller.lines.length;
    const starts: StartTimes[] = [];
    for (let job = 0; job < jobs; job++) starts.push(await timeJob(bench, controller, repository));
    assertUnaffected(controller.lines.slice(from));
    const inAll = summary(starts.map(({ row, dispatched }) => row - dispatched));
    const made = summary(starts.map(({ created, stored }) => created - stored));
    const claimed = summary(starts.map(({ claimed: at, stored }) => at - stored));
    console.log(`| ${name} | ${inAll} s | ${made} s | ${claimed} s | ${loadNow()} |`);
  } finally {
    await controller.process.stop();
  }
}

async function untilSaid(controller: BenchController, says: RegExp): Promise<void> {
  const fits = ({ msg, error }: ControllerLine) => says.test(`${msg} ${String(error)}`);
  await controller.line(fits, seenMs);
}

/** One Pod for each job, in the order in which they were dispatched, and no VM. */
function assertUnaffected(lines: readonly ControllerLine[]): void {
  const created = lines.filter(({ event }) => event === "executor_created");
  assert.deepEqual(
    created.map(({ backend }) => backend),
    Array.from({ length: jobs }, () => "pod"),
  );
  const tasks = created.map(({ assignment }) => Number(String(assignment).replace("gitea-task-", "")));
  assert.deepEqual(tasks, new Set(tasks).size === jobs ? tasks.toSorted((a, b) => a - b) : []);
  assert.deepEqual(
    lines.filter(({ backend, level }) => backend === "pod" && level !== "info"),
    [],
  );
}

console.log(`${jobs} jobs each, one by one, ${loadNow()}`);
console.log("| VMs | dispatched → first row | stored → a watch shows the Pod | stored → claimed | load |");
await measure("none are made", {});
await measure("made, and no job for one", vms);
const waiting = await dispatch(bench, repository, "vm");
for (const { name, changed = {}, begin, end, says } of troubles.filter((one) => one.name.includes(wanted))) {
  await begin?.();
  await measure(name, { ...vms, ...changed }, says);
  await end?.();
}
await measure("none are made, once more", {});
const [job] = await listJobs(bench.platform.admin, repository, waiting, AbortSignal.timeout(30_000));
assert.ok(job !== undefined && job.status !== "completed", `the job for a VM: ${job?.status}`);
console.log(`the job for a VM is ${job.status} all the time`);
