import path from "node:path";
import { systemClock } from "../../controller/platform/clock.ts";
import { createReport } from "../../scripts/peers/report.ts";
import { type ControllerLine, startController } from "../../scripts/quick-start/controller-process.ts";
import { createControllerLines } from "../support/controller-lines.ts";
import { untilNoVmLeft } from "../support/opensandbox/vm-leftovers.ts";
import { prepareVmPlatform, startVmPlatform } from "../support/opensandbox/vm-platform.ts";
import { createVmTenant } from "../support/opensandbox/vm-tenant.ts";
import { pushRun } from "../support/push-run.ts";
import { summary } from "./figures.ts";
import { difference } from "./pods-calls.ts";
import { loadNow, tellMachine } from "./pods-cluster.ts";
import { startGiteaProxy } from "./pods-gitea-proxy.ts";
import { startSandboxProxy } from "./vms-proxy.ts";

// What a whole job in a VM costs, from the push to a real Gitea until nothing is left of it: a controller with its own times, by
// way of proxies that count, on a real OpenSandbox server, with agents in the VMs.
const jobs = Number(process.argv[2] ?? 5);
const jobMs = 300_000;
const workflow =
  "on: push\njobs:\n  one:\n    runs-on: [self-hosted, vm]\n    steps:\n      - run: echo it runs\n";

tellMachine();
const signal = AbortSignal.timeout(60 * 60_000);
await using stack = new AsyncDisposableStack();
const platform = await startVmPlatform(await prepareVmPlatform(createReport(), signal), {}, stack, signal);
const { lab, admin, vms } = platform;
const sandboxes = stack.use(await startSandboxProxy(lab.server.url));
const gitea = stack.use(await startGiteaProxy(platform.gitea.url));
const pool = stack.use(await lab.pool({ pool: "bench", capacity: 2, host: vms }));
const environment = await createVmTenant(platform, { name: "bench", pool: pool.pool }, signal);
const told = createControllerLines();
const controller = await startController(
  {
    environment: { ...environment, GITEA_URL: gitea.url, OPENSANDBOX_API: sandboxes.url.href },
    folder: path.join(lab.folder.path, "controller"),
    onLine: told.add,
  },
  signal,
);
stack.defer(() => controller.stop());

type Moments = {
  readonly fetched: number;
  readonly stored: number;
  readonly asked: number;
  readonly created: number;
  readonly claimed: number;
  readonly reported: number;
};

const timeOf = (line: ControllerLine) => Date.parse(String(line["time"]));

/** One job until nothing is left of it. */
async function runJob(number: number): Promise<Moments> {
  const from = told.lines.length;
  const isNew = (line: ControllerLine) => told.lines.indexOf(line) >= from;
  const event = async (name: string) =>
    timeOf(await told.line((line) => line["event"] === name && isNew(line), jobMs));
  const run = await pushRun(admin, `bench-${number}`, workflow);
  const stored = timeOf(await told.line((line) => line.msg === "task stored" && isNew(line), jobMs));
  const created = await event("executor_created");
  const asked = performance.timeOrigin + sandboxes.askedAt();
  const claimed = await event("runner_claimed");
  const [job] = await run.jobs(undefined, jobMs);
  if (job?.conclusion !== "success") throw new Error(`job ${number} ended with ${job?.conclusion}`);
  const reported = systemClock.now();
  await untilNoVmLeft(platform);
  return { fetched: gitea.handedOutBefore(stored), stored, asked, created, claimed, reported };
}

// Files and caches that only the first one finds cold.
await runJob(0);
const before = sandboxes.calls.total();
const begun = performance.now();
const all: Moments[] = [];
for (let number = 1; number <= jobs; number++) all.push(await runJob(number));
const seconds = (performance.now() - begun) / 1000;
console.log(`${jobs} jobs, one by one, in ${seconds.toFixed(1)} s, ${loadNow()}`);
console.log(`calls for each of them: ${difference(before, sandboxes.calls.total(), jobs)}`);
for (const [from, to] of [
  ["fetched", "stored"],
  ["stored", "asked"],
  ["fetched", "asked"],
  ["asked", "created"],
  ["created", "claimed"],
  ["claimed", "reported"],
] as const)
  console.log(`| ${from} → ${to} | ${summary(all.map((one) => one[to] - one[from]))} s |`);
const idle = sandboxes.calls.total();
await systemClock.sleep(60_000, signal);
console.log(`calls in an idle minute: ${difference(idle, sandboxes.calls.total(), 1)}, ${loadNow()}`);
