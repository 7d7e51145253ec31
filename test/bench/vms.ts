import { randomUUID } from "node:crypto";
import { ownerLabel } from "../../controller/assignment/executor-metadata.ts";
import type { ExecutorRequest } from "../../controller/backends/backend.ts";
import { sandboxMetadata } from "../../controller/backends/vm/sandbox-executor.ts";
import { createVmBackend } from "../../controller/backends/vm/vm-backend.ts";
import { createHttpApi } from "../../controller/opensandbox/http-api.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import { prepareOpenSandboxLab } from "../../scripts/peers/opensandbox/prepare-lab.ts";
import { createReport } from "../../scripts/peers/report.ts";
import { createRecordingLogger } from "../fakes/recording-logger.ts";
import { anExecutorRequest } from "../support/backend-contract.ts";
import { testTrustDomain } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { startLab } from "../support/opensandbox/use-opensandbox.ts";
import { createIdleVms } from "../support/opensandbox/vm-host.ts";
import { createFakeVmIdentity } from "../support/vm.ts";
import { summary } from "./figures.ts";
import { difference } from "./pods-calls.ts";
import { loadNow, tellMachine } from "./pods-cluster.ts";
import { startSandboxProxy } from "./vms-proxy.ts";

// What VMs cost on a real OpenSandbox server: the backend with its own times, by way of a proxy that counts.
const jobs = 5;
const sandboxes = 1_000;
const sweeps = 10;

tellMachine();
const signal = AbortSignal.timeout(30 * 60_000);
await using stack = new AsyncDisposableStack();
const lab = await startLab(await prepareOpenSandboxLab({ report: createReport() }, signal), {}, stack);
const proxy = stack.use(await startSandboxProxy(lab.server.url));
const pool = stack.use(await lab.pool({ pool: "bench", capacity: 4, host: createIdleVms() }));
const key = () => Promise.resolve(lab.server.key);
const api = createHttpApi({ url: proxy.url, key, requestId: randomUUID, clock: systemClock });
const over = new AbortController();
const requestOf = (id: number): ExecutorRequest => ({
  ...anExecutorRequest("vm", { assignment: { taskId: BigInt(id) } }),
  deadlineAt: systemClock.now() + 3_600_000,
});
const { owner } = requestOf(1).metadata;
const backend = createVmBackend({
  api,
  identity: createFakeVmIdentity(),
  owner,
  trustDomain: testTrustDomain,
  pool: pool.pool,
  clock: systemClock,
  random: Math.random,
  log: createRecordingLogger(),
});
const run = backend.run(over.signal).catch(() => undefined);
stack.defer(async () => {
  over.abort();
  await run;
  api.close();
  await lab.removeAll();
});

const asked: number[] = [];
const noticed: number[] = [];
const before = proxy.calls.total();
for (let id = 1; id <= jobs; id++) {
  const request = requestOf(id);
  const begun = performance.now();
  const { name } = await backend.create(request, signal);
  asked.push(proxy.askedAt() - begun);
  const phase = async () =>
    (await backend.list(signal)).executors.find((one) => one.name === name)?.state.phase;
  await eventually("it runs", async () => (await phase()) === "running", 60_000, 20);
  await backend.markTerminal(name, signal);
  const vm = pool.vmOf(pool.held()[0] ?? "");
  await vm?.stop();
  const ended = performance.now();
  await eventually("its end is noticed", async () => (await phase()) === "ended", 120_000, 20);
  noticed.push(performance.now() - ended);
  await backend.delete(name, signal);
}
console.log(`${jobs} jobs, one by one, ${loadNow()}`);
console.log(`calls for each of ${jobs}: ${difference(before, proxy.calls.total(), jobs)}`);
console.log(`the backend is asked → the POST is sent: ${summary(asked)} s`);
console.log(`the VM has ended → the backend says so: ${summary(noticed)} s`);
over.abort();
await run;

for (let id = 1; id <= sandboxes; id++)
  await lab.resources.make(
    `stray-${id}`,
    "none",
    sandboxMetadata(requestOf(10_000 + id), systemClock.now()),
    signal,
  );
const listed = async () => (await api.list({ [ownerLabel]: owner }, signal)).length;
await eventually("the server lists all of them", async () => (await listed()) === sandboxes, 120_000, 500);
const [bytesBefore, callsBefore] = [proxy.bytes(), proxy.calls.total()];
const took: number[] = [];
for (let sweep = 0; sweep < sweeps; sweep++) {
  const begun = performance.now();
  await listed();
  took.push(performance.now() - begun);
}
const bytes = (proxy.bytes() - bytesBefore) / sweeps;
console.log(`a list of ${sandboxes}: ${summary(took)} s, ${Math.round(bytes / 1000)} kB, ${loadNow()}`);
console.log(`calls for each list: ${difference(callsBefore, proxy.calls.total(), sweeps)}`);
