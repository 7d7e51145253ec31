import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { stageProgram } from "../../controller/backends/local/stage-program.ts";
import { parseSpiffeId } from "../../controller/identity/spiffe-id.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import { createTlsServer } from "../../controller/spiffe/tls-server.ts";
import { createFakeFacade } from "../fakes/fake-facade.ts";
import { createFakeWorkloadApi } from "../fakes/fake-workload-api.ts";
import { aTask } from "../support/a-task.ts";
import { createTestCa, issueLeaf, svidMessage } from "../support/test-pki.ts";
import { summary } from "./figures.ts";
import { loadNow, tellMachine } from "./pods-cluster.ts";
import { processFigures } from "./pods-process.ts";

// How long the bootstrap takes from the start of its process to its claim, with a Workload API and a facade that answer at once.
// Given another checkout it is measured as well, in turns: how the program was before a change, say.
const runs = Number(process.argv[2] ?? 20);
const other = process.argv[3];

const ownId = "spiffe://example.org/ci/acme/widgets/build";
const facadeId = "spiffe://example.org/facade";
/** How long a run waits for its SVID in the second kind of run, and then for what stands for a Docker. */
const waitMs = 1_000;

tellMachine();
const folder = await mkdtemp(path.join(tmpdir(), "bootstrap-start-"));
await using stack = new AsyncDisposableStack();
stack.defer(() => rm(folder, { recursive: true, force: true }));
const ca = await createTestCa();
const leaf = await issueLeaf(ca, facadeId);
const now = systemClock.now();
const times = { notBefore: now - 1_000, notAfter: now + 3_600_000 };
const pem = { certificatePem: leaf.chainPem, keyPem: leaf.keyPem, bundlePem: [ca.pem] };
const svid = { id: parseSpiffeId(facadeId), ...pem, ...times };
const source = { current: () => svid, onUpdate: () => () => undefined };
const own = { svids: [svidMessage(ownId, await issueLeaf(ca, ownId), ca)] };
const socket = path.join(folder, "agent.sock");
const api = stack.use(createFakeWorkloadApi(socket));
await api.start();
await writeFile(path.join(folder, "config.yaml"), "runner: {}\n");
const [without, withDocker] = [path.join(folder, "without"), path.join(folder, "with")];
for (const bin of [without, withDocker]) await mkdir(bin);
const script = `#!/bin/sh\nexec /bin/sleep ${waitMs / 1000}\n`;
await writeFile(path.join(withDocker, "gitea-job-started"), script, { mode: 0o755 });

type Start = { readonly ms: number; readonly cpuMs: number };
type Program = { readonly name: string; readonly main: string };

/** Milliseconds from the start of the process to its claim at the facade, and of the processor; it is ended then. */
async function untilClaim({ main }: Program, waits: boolean): Promise<Start> {
  const facade = createFakeFacade({ task: aTask() });
  // Nothing happens after it.
  facade.hangNext("updateTask");
  const server = createTlsServer({
    source,
    clock: systemClock,
    onRefused: () => undefined,
    limits: { closeGraceMs: 0 },
  });
  server.server.on(
    "request",
    connectNodeAdapter({ routes: facade.routes, requestPathPrefix: "/api/actions" }),
  );
  const { port } = await server.listen({ host: "127.0.0.1", port: 0 });
  const begun = performance.now();
  const child = spawn(process.execPath, [main], {
    cwd: folder,
    env: {
      PATH: waits ? withDocker : without,
      CI_ASSIGNMENT_ID: "gitea-task-42",
      CI_BACKEND: "pod",
      CI_RUNNER_CAPABILITY: `1.${randomUUID()}`,
      CI_SPIFFE_ID: ownId,
      RUNNER_FACADE_URL: `https://localhost:${port}`,
      RUNNER_FACADE_SPIFFE_ID: facadeId,
      SPIFFE_ENDPOINT_SOCKET: `unix://${socket}`,
      GITEA_RUNNER_BINARY: "/bin/false",
      GITEA_RUNNER_CONFIG_FILE: path.join(folder, "config.yaml"),
    },
    stdio: "ignore",
  });
  const ended = once(child, "exit");
  try {
    const stream = await api.nextStream();
    if (waits) await systemClock.sleep(waitMs, AbortSignal.timeout(60_000));
    stream.send(own);
    await Promise.race([
      facade.called("updateTask"),
      ended.then(([code]) => Promise.reject(new Error(`it ended with ${code}`))),
    ]);
    const ms = performance.now() - begun - (waits ? 2 * waitMs : 0);
    return { ms, cpuMs: (await processFigures(child.pid ?? 0)).cpuSeconds * 1000 };
  } finally {
    child.kill("SIGKILL");
    await ended;
    await server.stop();
  }
}

/** As executors have it. */
async function staged(name: string, checkout: string, target: string): Promise<Program> {
  const { bootstrap } = await stageProgram({
    source: checkout,
    target: path.join(folder, target),
    node: process.execPath,
    giteaRunnerBinary: "/bin/false",
  });
  return { name, main: bootstrap };
}

const repository = path.join(import.meta.dirname, "../..");
const programs: readonly Program[] = [
  await staged("as executors have it", repository, "own"),
  { name: "its sources", main: path.join(repository, "controller/bootstrap/main.ts") },
  ...(other === undefined
    ? []
    : [
        {
          name: `sources of ${path.basename(other)}`,
          main: path.join(other, "controller/bootstrap/main.ts"),
        },
      ]),
];
console.log(
  `| program | start → claim | processor time for that | beyond ${waitMs} ms until the SVID comes and as much for a Docker |\n` +
    "| --- | --- | --- | --- |",
);
const figures = programs.map((program) => ({ program, atOnce: [] as Start[], waiting: [] as Start[] }));
for (let run = 0; run < runs; run++)
  for (const { program, atOnce, waiting } of figures) {
    atOnce.push(await untilClaim(program, false));
    waiting.push(await untilClaim(program, true));
  }
for (const { program, atOnce, waiting } of figures) {
  const wall = (all: readonly Start[]) => `${summary(all.map(({ ms }) => ms))} s`;
  console.log(
    `| ${program.name} | ${wall(atOnce)} | ${summary(atOnce.map(({ cpuMs }) => cpuMs))} s | ${wall(waiting)} |`,
  );
}
console.log(`${runs} runs each, in turns, ${loadNow()}`);
