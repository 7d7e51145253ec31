import { chmod, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createSpireEntries } from "../../controller/backends/local/spire-entries.ts";
import { entryFile, serialiseEntry, socketPath } from "../../controller/backends/local/workload-entry.ts";
import { parseTrustDomain } from "../../controller/identity/spiffe-id.ts";
import { createReport } from "../../scripts/peers/report.ts";
import { prepareSpire, startSpire } from "../../scripts/peers/start-spire.ts";
import { signalGroup } from "../../scripts/peers/process-group.ts";
import { startWorkloadApi } from "../../scripts/workload-api/start.ts";
import { describeWorkloadApi, type WorkloadApiUnderTest } from "../support/workload-api-contract.ts";

const trustDomain = parseTrustDomain("example.org");
const { signal } = new AbortController();

/** SPIRE is compiled the first time. */
const buildMs = 30 * 60_000;
const startMs = 30_000;

describeWorkloadApi("the Workload API of real SPIRE", buildMs, makeSpire);
describeWorkloadApi("the development Workload API", startMs, makeDevelopment);

/** An SVID of SPIRE begins ten seconds before it is made and is renewed at half of its life: at once, here. */
const spireTtlSeconds = 8;
/** Long enough to be still valid when a busy machine has noticed that there will be no other. */
const developmentTtlSeconds = 8;

async function makeFolder(stack: AsyncDisposableStack): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), "workload-api-"));
  await chmod(folder, 0o755);
  stack.defer(() => rm(folder, { recursive: true, maxRetries: 5 }));
  return folder;
}

async function makeSpire(): Promise<WorkloadApiUnderTest> {
  await using stack = new AsyncDisposableStack();
  const folder = await makeFolder(stack);
  const peers = await prepareSpire(createReport(), signal);
  const spire = stack.use(await startSpire({ folder, trustDomain, peers }, signal));
  const { serverSocket, agentSocket, parentId } = spire;
  const entries = createSpireEntries({ serverBinary: peers.spireServer.binary, serverSocket });
  const selectors = [`unix:uid:${process.geteuid?.() ?? 0}`];
  const all = stack.move();
  return {
    trustDomain,
    socket: () => agentSocket,
    register: async (id, spiffeId) =>
      void (await entries.create(
        { id, spiffeId, parentId, selectors, x509TtlSeconds: spireTtlSeconds },
        signal,
      )),
    unregister: (id) => entries.remove(id, signal),
    kill: async () => {
      spire.agent().signal("SIGKILL");
      await spire.agent().exited;
    },
    start: () => spire.startAgent(signal),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

async function makeDevelopment(): Promise<WorkloadApiUnderTest> {
  await using stack = new AsyncDisposableStack();
  const folder = await makeFolder(stack);
  const options = { folder, trustDomain, svidTtlSeconds: developmentTtlSeconds, signal };
  let running = await startWorkloadApi(options);
  stack.defer(() => running.stop());
  const all = stack.move();
  return {
    trustDomain,
    socket: (name) => socketPath(folder, name),
    register: async (name, spiffeId) => {
      const file = entryFile(folder, name);
      const draft = path.join(path.dirname(file), `.${name}.new`);
      await writeFile(draft, serialiseEntry({ spiffeId, uid: null }));
      await rename(draft, file);
    },
    unregister: (name) => rm(entryFile(folder, name), { force: true }),
    kill: async () => {
      signalGroup(running.pid, "SIGKILL");
      await running.exited;
    },
    start: async () => {
      running = await startWorkloadApi(options);
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}
