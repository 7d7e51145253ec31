import assert from "node:assert/strict";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type Client, Code, ConnectError } from "@connectrpc/connect";
import { after, before, describe, it } from "mocha";
import { entryFile, serialiseEntry, socketPath } from "../../controller/backends/local/workload-entry.ts";
import { createFacadeConnection } from "../../controller/bootstrap/facade-client.ts";
import { parseSpiffeId } from "../../controller/identity/spiffe-id.ts";
import { systemRandom } from "../../controller/platform/backoff.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import { exactly } from "../../controller/spiffe/authorize.ts";
import { createClientSessions } from "../../controller/spiffe/client-sessions.ts";
import { parseEndpoint } from "../../controller/spiffe/endpoint.ts";
import { createWorkloadClient } from "../../controller/spiffe/workload-client.ts";
import { openX509Source } from "../../controller/spiffe/x509-source.ts";
import { Result, type RunnerService } from "../../proto/gen/runner/v1/runner_pb.ts";
import { createRecordingLogger } from "../fakes/recording-logger.ts";
import { usePlatform } from "../support/platform.ts";
import type { PushedRun } from "../support/push-run.ts";
import { type Credentials, stealCredentials } from "../support/steal-credentials.ts";

/** What a hostile job does to everything around it. Each line that it prints is one thing that it got. */
const script = (around: string) => String.raw`
import fs from "node:fs";
import net from "node:net";
import path from "node:path";
const got = (what) => console.log("GOT " + what);
const tries = { count: 0 };
const attempt = (what, act) => { tries.count++; try { act(); got(what); } catch {} };
const own = process.env.CI_EXECUTOR_FOLDER;
const walk = (folder, depth) => {
  if (folder === own || depth > 6) return;
  let entries = [];
  try { entries = fs.readdirSync(folder, { withFileTypes: true }); } catch { return; }
  for (const entry of entries) {
    const file = path.join(folder, entry.name);
    if (entry.isDirectory() && !/node_modules|program|gitea$/.test(entry.name)) walk(file, depth + 1);
    if (entry.isFile() && /token|keys|password|executor\.json|\.runner$|^log$|controller\.log|authority\.json|\.key$/.test(entry.name))
      attempt(file, () => fs.readFileSync(file));
    if (entry.isFile()) attempt("to write " + file, () => fs.closeSync(fs.openSync(file, "a")));
    if (entry.isSocket() && "unix://" + file !== process.env.SPIFFE_ENDPOINT_SOCKET) sockets.push(file);
  }
};
const sockets = [];
walk("${around}", 0);
for (const pid of fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
  let text = "";
  try { text = fs.readFileSync("/proc/" + pid + "/environ", "latin1"); } catch { continue; }
  const id = /CI_ASSIGNMENT_ID=([^\0]*)/.exec(text)?.[1];
  tries.count++;
  if (id !== undefined && id !== process.env.CI_ASSIGNMENT_ID) got("the environment of " + id);
}
const reach = (options) => new Promise((done) => {
  tries.count++;
  const socket = net.connect(options, () => { socket.destroy(); done(true); });
  socket.on("error", () => done(false));
});
for (const file of sockets) if (await reach({ path: file })) got("the socket " + file);
const { hostname, port } = new URL(process.env.GITHUB_SERVER_URL);
const raw = (text, idleMs = 400) => new Promise((done) => {
  tries.count++;
  let answer = "";
  const socket = net.connect(Number(port), hostname, () => socket.write(text));
  socket.setTimeout(idleMs, () => socket.destroy());
  socket.on("data", (chunk) => { answer += chunk; }).on("error", () => {}).on("close", () => done(answer));
});
const ping = "/api/actions/ping.v1.PingService/Ping";
const body = '{"data":"pong-from-gitea"}';
const rest = " HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: " + body.length + "\r\nconnection: close\r\n\r\n" + body;
const paths = [ping, "/" + ping, "/%61pi/actions" + ping.slice(12), "/api%2factions" + ping.slice(12), "/x/.." + ping, "/x/%2e%2e" + ping,
  "/api/./actions" + ping.slice(12), "/API/Actions" + ping.slice(12), "/api\\actions" + ping.slice(12), "/%2561pi/actions" + ping.slice(12),
  "/api;x/actions" + ping.slice(12), "http://x" + ping, "/-/.." + ping, "/demo/..;" + ping];
const answers = await Promise.all([
  ...paths.map((target) => raw("POST " + target + rest)),
  raw("GET /api/v1/version HTTP/1.1\r\nhost: x\r\nconnection: content-length\r\ncontent-length: " + ("POST " + ping + rest).length + "\r\n\r\nPOST " + ping + rest),
  raw("POST /api/v1/version HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\nPOST " + ping + rest),
  raw("CONNECT 127.0.0.1:80 HTTP/1.1\r\nhost: x\r\n\r\nPOST " + ping + rest),
]);
for (const answer of answers) if (answer.includes("pong-from-gitea")) got("Gitea's runner protocol");
// Its end is the answer's, however long that takes.
const honest = await raw("GET /api/v1/version HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", 60_000);
console.log("HONEST " + /"version"/.test(honest));
console.log("TRIED " + (tries.count > 30));
`;

describe("an attack on a real job", () => {
  const real = usePlatform();
  const signal = AbortSignal.timeout(30 * 60_000);
  const facadeId = parseSpiffeId("spiffe://quick-start.example/controller/facade");
  let gates = "";
  let gate = "";
  let victimsRun: PushedRun;
  let victim: Credentials;
  let resources: AsyncDisposableStack;

  before("let a job run", async function () {
    this.timeout(180_000);
    resources = new AsyncDisposableStack();
    gates = await mkdtemp(path.join(tmpdir(), "gate-"));
    await chmod(gates, 0o755);
    gate = path.join(gates, "open");
    victimsRun = await real.push(
      "victim",
      `
on: push
jobs:
  build:
    runs-on: [self-hosted, pod]
    steps:
      - run: |
          echo "the job begins"
          while [ ! -e ${gate} ]; do sleep 0.1; done
          echo "the job ends"
`,
    );
    await real.line((line) => line["event"] === "runner_claimed");
    victim = await stealCredentials(real.platform.folder);
  });
  after(async () => {
    await resources.disposeAsync();
    await rm(gates, { recursive: true, force: true });
  });

  let identities = 0;
  /** Calls with a real SVID of this ID, as if its Workload API had been tricked into it. */
  async function as(id: string, says: { readonly assignmentId: string; readonly capability: string }) {
    const workloads = path.join(real.platform.folder, "spiffe");
    const name = `mallory-${++identities}`;
    const expectedId = parseSpiffeId(id);
    await writeFile(entryFile(workloads, name), serialiseEntry({ spiffeId: expectedId, uid: null }));
    resources.defer(() => rm(entryFile(workloads, name), { force: true }));
    const client = resources.use(
      createWorkloadClient(parseEndpoint(`unix://${socketPath(workloads, name)}`)),
    );
    const common = { clock: systemClock, random: systemRandom, log: createRecordingLogger() };
    const wanted = { client, expectedId, readyTimeoutMs: 20_000, ...common };
    const source = resources.use(await openX509Source(wanted, signal));
    const baseUrl = real.platform.environment["RUNNER_FACADE_URL"] ?? "";
    const sessions = resources.use(
      createClientSessions({ source, baseUrl, authorize: exactly(facadeId), clock: systemClock }),
    );
    const caller = { ...says, instance: "mallory-instance-0001" };
    return createFacadeConnection(baseUrl, caller, {
      sessionManager: sessions,
      redial: () => sessions.redial(),
    }).client;
  }

  const tryAll = async (client: Client<typeof RunnerService>, taskId = victim.taskId) => {
    const calls = [
      () => client.declare({ labels: ["self-hosted", "vm"] }),
      () => client.fetchTask({}),
      () => client.updateLog({ taskId, index: 0n, rows: [{ content: "owned" }] }),
      () => client.updateTask({ state: { id: taskId, result: Result.FAILURE } }),
      () => client.register({ name: "mallory", token: "x" }),
    ];
    const outcomes: string[] = [];
    for (const call of calls)
      outcomes.push(
        await call().then(
          () => "ok",
          (error: unknown) => Code[ConnectError.from(error).code] ?? "",
        ),
      );
    return outcomes;
  };
  const denied = "PermissionDenied";

  it("with an SVID of the trust domain and the job's own capability gets nothing", async () => {
    const { assignmentId } = victim;
    for (const id of [
      "spiffe://quick-start.example/ci/mallory/trap/build",
      `${victim.spiffeId}x`,
      facadeId,
    ]) {
      const client = await as(id, { assignmentId, capability: victim.capability });
      assert.deepEqual(
        await tryAll(client),
        Array.from({ length: 5 }, () => denied),
      );
    }
  });

  it("with the job's own SVID and no capability, or another's, gets nothing", async () => {
    const { assignmentId } = victim;
    for (const capability of [
      "",
      victim.capability.replace(/^1\./, "2."),
      `1.${"0".repeat(32)}.${"A".repeat(43)}`,
    ]) {
      const client = await as(victim.spiffeId, { assignmentId, capability });
      assert.deepEqual(
        await tryAll(client),
        Array.from({ length: 5 }, () => denied),
      );
    }
  });

  it("with the job's own SVID and capability is told once and for all that it is not the one that claimed", async () => {
    const { assignmentId } = victim;
    const client = await as(victim.spiffeId, { assignmentId, capability: victim.capability });
    const final = "Unauthenticated";
    assert.deepEqual(await tryAll(client), [final, final, final, final, denied]);
  });

  it("by a job of its own reaches no secret, no other job and no runner protocol, and breaks nothing", async () => {
    const run = await real.push(
      "mallory",
      `
on: push
jobs:
  attack:
    runs-on: [self-hosted, vm]
    steps:
      - run: |
          cat > "$RUNNER_TEMP/attack.mjs" <<'SCRIPT'
${script(real.platform.folder)
  .split("\n")
  .map((line) => `          ${line}`)
  .join("\n")}
          SCRIPT
          node "$RUNNER_TEMP/attack.mjs"
`,
    );
    const [job] = await run.jobs();
    assert.ok(job !== undefined);
    const log = await run.log(job);
    assert.equal(job.conclusion, "success", log.join("\n"));
    const all = log.filter((line) => /^(GOT|HONEST|TRIED) /.test(line));
    if (process.geteuid?.() === 0) assert.deepEqual(all, ["HONEST true", "TRIED true"]);
    else assert.ok(!all.includes("GOT Gitea's runner protocol"));
  });

  it("has left the job as it was: its own result, its own log, and every refusal told", async () => {
    await writeFile(gate, "");
    const [job] = await victimsRun.jobs();
    assert.equal(job?.conclusion, "success");
    const log = await victimsRun.log(job);
    assert.deepEqual(
      log.filter((line) => /^the job|owned/.test(line)),
      ["the job begins", "the job ends"],
    );
    const refused = new Set(
      real.lines.filter(({ msg }) => msg === "caller refused").map((line) => line["kind"]),
    );
    assert.deepEqual(refused, new Set(["capability", "superseded", "register"]));
    assert.ok(!JSON.stringify(real.lines).includes(victim.capability));
    const metrics = await fetch(`http://${real.platform.environment["HEALTH_LISTEN"]}/metrics`);
    const text = await metrics.text();
    assert.match(text, /^runners_refused_callers_total\{reason="capability"\} [1-9]/m);
    assert.match(text, /^runners_refused_callers_total\{reason="flood"\} 0$/m);
    assert.match(text, /^runners_slots_capacity\{backend="vm"\} 1$/m);
    assert.match(text, /^runners_gitea_silence_seconds [0-9.]+$/m);
  });
});
