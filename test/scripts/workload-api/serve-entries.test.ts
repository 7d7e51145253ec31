import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { afterEach, beforeEach, describe, it } from "mocha";
import { SpiffeWorkloadAPI } from "../../../proto/gen/spiffe/workload_pb.ts";
import {
  entriesFolder,
  entryFile,
  serialiseEntry,
  socketPath,
  socketsFolder,
  type WorkloadEntry,
} from "../../../controller/backends/local/workload-entry.ts";
import { parseSpiffeId, parseTrustDomain, type SpiffeId } from "../../../controller/identity/spiffe-id.ts";
import { createLogger } from "../../../controller/platform/logger.ts";
import { exactly } from "../../../controller/spiffe/authorize.ts";
import { createClientSessions } from "../../../controller/spiffe/client-sessions.ts";
import { fetchJwtSvid } from "../../../controller/spiffe/jwt-svid.ts";
import { createTlsServer } from "../../../controller/spiffe/tls-server.ts";
import { createWorkloadClient, type WorkloadClient } from "../../../controller/spiffe/workload-client.ts";
import { openX509Source } from "../../../controller/spiffe/x509-source.ts";
import { openAuthority } from "../../../scripts/workload-api/authority.ts";
import { serveEntries } from "../../../scripts/workload-api/serve-entries.ts";
import { createFakeClock, type FakeClock, settle } from "../../fakes/fake-clock.ts";

const spiffeId = parseSpiffeId("spiffe://example.org/ci/owner/repo/build");
const ttlMs = 3_600_000;
const entry = { spiffeId, uid: null };

async function firstOf<T>(messages: AsyncIterable<T>): Promise<T | undefined> {
  for await (const message of messages) return message;
  return undefined;
}

describe("development Workload API", () => {
  let folder: string;
  let clock: FakeClock;
  let lines: { entry: string; problem: string; msg: string }[];
  let stop: AbortController;
  let served: Promise<void>;
  let resources: AsyncDisposableStack;
  const never = new AbortController().signal;

  beforeEach(async () => {
    resources = new AsyncDisposableStack();
    folder = await mkdtemp(path.join(tmpdir(), "workload-api-"));
    resources.defer(() => rm(folder, { recursive: true }));
    clock = createFakeClock(Math.floor(Date.now() / 1000) * 1000);
    lines = [];
    await mkdir(entriesFolder(folder));
    await start();
  });
  afterEach(() => resources.disposeAsync());

  async function start(): Promise<void> {
    stop = new AbortController();
    const authority = await openAuthority(folder, parseTrustDomain("example.org"), clock.now());
    const log = createLogger("info", { write: (line) => lines.push(JSON.parse(line)) });
    const ready = Promise.withResolvers<void>();
    const options = { folder, authority, svidTtlMs: ttlMs, clock, log, onReady: ready.resolve };
    const ending = stop;
    served = serveEntries(options, ending.signal);
    served.catch(ready.reject);
    resources.defer(async () => {
      ending.abort();
      await served;
    });
    await ready.promise;
  }

  async function register(name: string, what: WorkloadEntry): Promise<void> {
    const file = entryFile(folder, name);
    const draft = path.join(path.dirname(file), `.${name}.new`);
    await writeFile(draft, serialiseEntry(what));
    await rename(draft, file);
  }

  /** Waits, without the clock, until it is so: events of the file system come when they come. */
  async function until(isSo: () => Promise<boolean> | boolean): Promise<void> {
    while (!(await isSo())) await settle();
  }
  const isThere = (file: string) =>
    stat(file).then(
      () => true,
      () => false,
    );

  async function clientOf(name: string): Promise<WorkloadClient> {
    const socket = socketPath(folder, name);
    await until(() => isThere(socket));
    return resources.use(createWorkloadClient({ kind: "unix", path: socket }));
  }

  const hasCode = (code: Code) => (error: unknown) => error instanceof ConnectError && error.code === code;

  it("gives a workload its SVID as soon as its entry is written, and a new one at half of its life", async () => {
    await register("job", entry);
    const client = await clientOf("job");
    const log = createLogger("error", { write: () => {} });
    const random = () => 0;
    await using source = await openX509Source(
      { client, expectedId: spiffeId, clock, random, log, readyTimeoutMs: 30_000 },
      never,
    );
    const first = source.current();
    assert.equal(first.notAfter, clock.now() + ttlMs);
    const updated = new Promise((resolve) => source.onUpdate(resolve));
    await until(() => clock.pending().some((ms) => ms > ttlMs / 2 - 1_000));
    await clock.step(ttlMs / 2);
    await updated;
    assert.equal(source.current().notAfter, clock.now() + ttlMs);
    assert.notEqual(source.current().keyPem, first.keyPem);
  });

  it("gives SVIDs with which two workloads talk TLS", async () => {
    const facadeId = parseSpiffeId("spiffe://example.org/controller");
    await register("job", entry);
    await register("facade", { spiffeId: facadeId, uid: null });
    const log = createLogger("error", { write: () => {} });
    const sourceOf = async (name: string, expectedId: SpiffeId) => {
      const options = { client: await clientOf(name), expectedId, clock, random: () => 0, log };
      return resources.use(await openX509Source({ ...options, readyTimeoutMs: 30_000 }, never));
    };
    const refusals: string[] = [];
    const onRefused = ({ reason }: { reason: string }) => refusals.push(reason);
    const server = createTlsServer({ source: await sourceOf("facade", facadeId), clock, onRefused });
    resources.use(server);
    server.server.on("request", (request, response) =>
      response.writeHead(200, { peer: JSON.stringify(server.peerOf(request.stream.session)) }).end(),
    );
    const { port } = await server.listen({ host: "127.0.0.1", port: 0 });
    const source = await sourceOf("job", spiffeId);
    const authorize = exactly(facadeId);
    const baseUrl = `https://127.0.0.1:${port}`;
    using sessions = createClientSessions({ baseUrl, source, authorize, clock });
    const stream = await sessions.request("GET", "/", {}, {});
    const [headers] = await once(stream, "response");
    await once(stream.resume(), "close");
    const peer = { ok: true, id: spiffeId, notAfter: source.current().notAfter };
    assert.deepEqual(JSON.parse(headers["peer"]), peer);
    assert.deepEqual(refusals, []);
  });

  it("gives JWT-SVIDs of that workload only, for an audience", async () => {
    await register("job", entry);
    const client = await clientOf("job");
    const fetch = (audience: string, expectedId = spiffeId) =>
      fetchJwtSvid({ client, audience, expectedId, timeoutMs: 10_000 }, never);
    assert.equal((await fetch("registry")).expiresAt, clock.now() + 300_000);
    await assert.rejects(
      fetch("registry", parseSpiffeId("spiffe://example.org/b")),
      hasCode(Code.PermissionDenied),
    );
  });

  it("answers nobody without the security header, and no request without audience", async () => {
    await register("job", entry);
    const socket = socketPath(folder, "job");
    await until(() => isThere(socket));
    const baseUrl = "http://localhost";
    const sessionManager = new Http2SessionManager(
      baseUrl,
      {},
      { createConnection: () => net.connect(socket) },
    );
    resources.defer(() => sessionManager.abort());
    const api = createClient(SpiffeWorkloadAPI, createGrpcTransport({ baseUrl, sessionManager }));
    const first = (headers: Record<string, string>) => firstOf(api.fetchX509SVID({}, { headers }));
    await assert.rejects(first({}), hasCode(Code.InvalidArgument));
    await assert.rejects(first({ "workload.spiffe.io": "TRUE" }), hasCode(Code.InvalidArgument));
    const headers = { "workload.spiffe.io": "true" };
    await assert.rejects(api.fetchJWTSVID({ audience: [] }, { headers }), hasCode(Code.InvalidArgument));
  });

  it("ends calls with PermissionDenied and removes the socket when the entry goes", async () => {
    await register("job", entry);
    await register("other", { ...entry, spiffeId: parseSpiffeId("spiffe://example.org/other") });
    const [client, other] = [await clientOf("job"), await clientOf("other")];
    const messages = client.watchX509Svids(never)[Symbol.asyncIterator]();
    await messages.next();
    await rm(entryFile(folder, "job"));
    await assert.rejects(messages.next(), hasCode(Code.PermissionDenied));
    await until(async () => !(await isThere(path.dirname(socketPath(folder, "job")))));
    const message = await firstOf(other.watchX509Svids(never));
    assert.equal(message?.svids[0]?.spiffeId, "spiffe://example.org/other");
  });

  it("gives the new ID when an entry is replaced", async () => {
    await register("job", entry);
    const messages = (await clientOf("job")).watchX509Svids(never)[Symbol.asyncIterator]();
    await messages.next();
    await register("job", { ...entry, spiffeId: parseSpiffeId("spiffe://example.org/next") });
    await assert.rejects(messages.next(), hasCode(Code.PermissionDenied));
    const message = await firstOf((await clientOf("job")).watchX509Svids(never));
    assert.equal(message?.svids[0]?.spiffeId, "spiffe://example.org/next");
  });

  it("reports what is no entry, once and with its name, and serves the others", async () => {
    const broken = {
      "broken.json": "{",
      "foreign.json": '{"spiffeId":"spiffe://other.org/a","uid":null}',
      "x.txt": "",
    };
    for (const [file, text] of Object.entries(broken)) {
      await writeFile(path.join(entriesFolder(folder), `.${file}`), text);
      await rename(path.join(entriesFolder(folder), `.${file}`), path.join(entriesFolder(folder), file));
    }
    await register("job", entry);
    await clientOf("job");
    await until(() => lines.length >= 3);
    for (let i = 0; i < 3; i++) await clock.step(1_000);
    const told = lines.map(({ entry: file, problem }) => `${file}: ${problem}`).toSorted();
    assert.equal(told.length, 3, told.join("\n"));
    assert.match(told[0] ?? "", /^broken\.json: it is not JSON/);
    assert.match(told[1] ?? "", /^foreign\.json: .* not of the trust domain example\.org$/);
    assert.match(told[2] ?? "", /^x\.txt: its name is not that of an entry$/);
    assert.deepEqual(await readdir(socketsFolder(folder)), ["job"]);
  });

  it("gives each workload a folder and a socket that nobody else may use", async () => {
    await register("job", entry);
    await clientOf("job");
    const socket = socketPath(folder, "job");
    const mode = async (file: string) => (await stat(file)).mode & 0o777;
    assert.deepEqual([await mode(path.dirname(socket)), await mode(socket)], [0o700, 0o600]);
    assert.deepEqual(await readdir(path.dirname(socket)), ["workload-api.sock"]);
  });

  it("leaves no socket behind when it stops, and serves the same entries with the same trust when it is back", async () => {
    await register("job", entry);
    const bundleOf = async () =>
      (await firstOf((await clientOf("job")).watchX509Svids(never)))?.svids[0]?.bundle;
    const bundle = await bundleOf();
    assert.ok(bundle);
    stop.abort();
    await served;
    assert.deepEqual(await readdir(socketsFolder(folder)), []);
    await start();
    assert.ok(await isThere(socketPath(folder, "job")));
    assert.deepEqual(await bundleOf(), bundle);
  });

  it("removes what a killed one left behind", async () => {
    stop.abort();
    await served;
    await mkdir(path.join(socketsFolder(folder), "gone"));
    await start();
    assert.deepEqual(await readdir(socketsFolder(folder)), []);
  });
});
