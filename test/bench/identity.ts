import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import tls from "node:tls";
import { createFacadeConnection } from "../../controller/bootstrap/facade-client.ts";
import { createSpireEntries } from "../../controller/backends/local/spire-entries.ts";
import { signCapability } from "../../controller/identity/capability.ts";
import { parseSpiffeId, type SpiffeId } from "../../controller/identity/spiffe-id.ts";
import { systemClock } from "../../controller/platform/clock.ts";
import { exactly } from "../../controller/spiffe/authorize.ts";
import { createClientSessions } from "../../controller/spiffe/client-sessions.ts";
import { secureContextOptions } from "../../controller/spiffe/secure-context.ts";
import { createTlsServer } from "../../controller/spiffe/tls-server.ts";
import { createWorkloadClient } from "../../controller/spiffe/workload-client.ts";
import { openX509Source, type X509Source } from "../../controller/spiffe/x509-source.ts";
import { createReport } from "../../scripts/peers/report.ts";
import { prepareSpire, type Spire, type SpirePeers, startSpire } from "../../scripts/peers/start-spire.ts";
import { createSettableSource } from "../controller/spiffe/settable-source.ts";
import { createRecordingLogger } from "../fakes/recording-logger.ts";
import { anAssignment, anAttempt } from "../support/builders.ts";
import { instance, keyRing } from "../support/facade-under-test.ts";
import { summary } from "./figures.ts";
import type { FacadeSays } from "./identity-facade.ts";

// What identities cost: handshakes and calls of the facade, its memory, and how long a new entry of real SPIRE takes.
// Facade and clients are two processes; each has one processor of two.
const measureMs = 4_000;
const rounds = 5;
const handshakesAtOnce = 8;
const callers = 50;
const idleSessions = 500;
const entries = 9;

const never = new AbortController().signal;
const table: (readonly [string, string])[] = [];

const child = fork(path.join(import.meta.dirname, "identity-facade.ts"), { execArgv: ["--expose-gc"] });
const started = await hear(child);
if (started.kind !== "listens") throw new Error("the facade of the bench did not start");
const { port, svid } = started;
const facadeId = parseSpiffeId(started.facadeId);

// First: what the other figures leave behind would hide it.
await Promise.all(Array.from({ length: callers }, shakeHands));
table.push([`memory of ${idleSessions} open sessions`, await memoryOfSessions()]);
table.push(["full mutual handshakes per second", await perSecond(handshakesAtOnce, shakeHands)]);
const clients = Array.from({ length: callers }, () => openClient());
await Promise.all(clients.map((client) => client.call()));
let turn = 0;
table.push([
  `calls per second on ${callers} open sessions`,
  await perSecond(callers, () => clients[turn++ % callers]?.call() ?? Promise.resolve()),
]);
for (const client of clients) client.close();
child.disconnect();

const peers = await prepareSpire(createReport(), never);
for (const interval of ["default", "500ms"] as const) {
  const label = interval === "default" ? "SPIRE's default intervals (5 s)" : "intervals of 0.5 s";
  table.push([`entry created → first call answered, ${label}`, await entryToCall(peers, interval)]);
}
console.log(`Node ${process.version}, SPIRE ${peers.spireServer.version}`);
for (const [what, figure] of table) console.log(`| ${what} | ${figure} |`);

async function hear(from: ChildProcess): Promise<FacadeSays> {
  const [message] = (await once(from, "message")) as [FacadeSays];
  return message;
}

/** How often `work` ends in a second, with this many of it at a time: median, least and most of the rounds. */
async function perSecond(atOnce: number, work: () => Promise<void>): Promise<string> {
  const found: number[] = [];
  for (let round = 0; round < rounds; round++) found.push(await countOne(atOnce, work));
  const sorted = found.toSorted((a, b) => a - b);
  return `${sorted[Math.floor(rounds / 2)]} (${sorted[0]}–${sorted.at(-1)})`;
}

async function countOne(atOnce: number, work: () => Promise<void>): Promise<number> {
  let done = 0;
  const until = performance.now() + measureMs;
  const loop = async () => {
    while (performance.now() < until) {
      await work();
      done++;
    }
  };
  await Promise.all(Array.from({ length: atOnce }, loop));
  return Math.round((done * 1000) / measureMs);
}

/** TCP, TLS, and the first bytes of HTTP/2: only they tell that the server has accepted our certificate. */
async function shakeHands(): Promise<void> {
  const socket = dial();
  await once(socket, "data");
  socket.destroy();
}

function dial(): tls.TLSSocket {
  return tls.connect({
    ...secureContextOptions(svid),
    host: "127.0.0.1",
    port,
    ALPNProtocols: ["h2"],
    checkServerIdentity: () => undefined,
  });
}

/** A bootstrap's connection; its call is answered by the facade itself, without Gitea and NATS. */
function openClient() {
  const sessions = createClientSessions({
    source: createSettableSource(svid),
    baseUrl: `https://127.0.0.1:${port}`,
    authorize: exactly(facadeId),
    clock: systemClock,
  });
  const assignment = anAssignment();
  const claims = { assignmentId: assignment.id, spiffeId: assignment.spiffeId, attempt: anAttempt() };
  const caller = { assignmentId: assignment.id, capability: signCapability(keyRing, claims), instance };
  const { client } = createFacadeConnection(`https://127.0.0.1:${port}`, caller, {
    sessionManager: sessions,
    redial: () => undefined,
  });
  return {
    call: async () => void (await client.declare({ labels: ["pod"], version: "bench" })),
    close: () => sessions[Symbol.dispose](),
  };
}

async function memoryOfSessions(): Promise<string> {
  const before = await memory(0);
  const sockets = [];
  for (let index = 0; index < idleSessions; index++) {
    const socket = dial();
    await once(socket, "data");
    sockets.push(socket);
  }
  const after = await memory(idleSessions);
  for (const socket of sockets) socket.destroy();
  const mebibytes = (after - before) / 2 ** 20;
  return `${mebibytes.toFixed(0)} MiB (${((mebibytes * 1024) / idleSessions).toFixed(0)} KiB each)`;
}

/** The resident memory of the facade, when it has that many sessions. */
async function memory(sessions: number): Promise<number> {
  for (;;) {
    child.send("memory");
    const said = await hear(child);
    if (said.kind === "memory" && said.sessions === sessions) return said.bytes;
    await systemClock.sleep(50, never);
  }
}

/** A workload that is there when its entry is made, as an executor is, and calls the facade as soon as it can. */
async function entryToCall(spirePeers: SpirePeers, interval: string): Promise<string> {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(path.join(tmpdir(), "bench-spire-"));
  stack.defer(() => rm(folder, { recursive: true, maxRetries: 5 }));
  await chmod(folder, 0o755);
  const options = { folder, trustDomain: "example.org", peers: spirePeers };
  const spire = stack.use(
    await startSpire({ ...options, cacheReloadInterval: interval, syncInterval: interval }, never),
  );
  await register(spire, "facade", facadeId);
  const source = stack.use(await openSource(spire, facadeId));
  const server = stack.use(createTlsServer({ source, clock: systemClock, onRefused: () => undefined }));
  server.server.on("request", (request, response) => {
    response.writeHead(server.peerOf(request.stream.session).ok ? 200 : 403).end();
  });
  const address = await server.listen({ host: "127.0.0.1", port: 0 });
  const times: number[] = [];
  for (let index = 0; index < entries; index++) {
    // Entries come at any time between two looks.
    await systemClock.sleep((index * 700) % 5_000, never);
    const id = parseSpiffeId(`spiffe://example.org/ci/owner/repo/job-${index}`);
    const begun = performance.now();
    await register(spire, `job-${index}`, id);
    await using job = await openSource(spire, id);
    using sessions = createClientSessions({
      source: job,
      baseUrl: `https://127.0.0.1:${address.port}`,
      authorize: exactly(facadeId),
      clock: systemClock,
    });
    await firstCall(sessions);
    times.push(performance.now() - begun);
  }
  return `${summary(times)} s, ${entries} runs`;
}

async function firstCall(sessions: ReturnType<typeof createClientSessions>): Promise<void> {
  const stream = await sessions.request("GET", "/", {}, {});
  const closed = once(stream, "close");
  stream.end();
  const [headers] = (await once(stream, "response")) as [Record<string, unknown>];
  stream.resume();
  await closed;
  if (headers[":status"] !== 200) throw new Error(`the facade answered ${String(headers[":status"])}`);
}

async function register(spire: Spire, id: string, spiffeId: SpiffeId): Promise<void> {
  const { serverSocket, parentId } = spire;
  const entriesOf = createSpireEntries({ serverBinary: spire.peers.spireServer.binary, serverSocket });
  const selectors = [`unix:uid:${process.geteuid?.() ?? 0}`];
  await entriesOf.create({ id, spiffeId, parentId, selectors }, never);
}

async function openSource(spire: Spire, expectedId: SpiffeId): Promise<X509Source> {
  const client = createWorkloadClient({ kind: "unix", path: spire.agentSocket });
  const log = createRecordingLogger();
  const wanted = { client, expectedId, clock: systemClock, random: Math.random, log };
  return await openX509Source({ ...wanted, readyTimeoutMs: 60_000 }, never);
}
