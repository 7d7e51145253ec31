import assert from "node:assert/strict";
import { once } from "node:events";
import net, { type AddressInfo, type LookupFunction } from "node:net";
import { TLSSocket } from "node:tls";
import {
  type Client,
  Code,
  ConnectError,
  createClient,
  createContextKey,
  createContextValues,
} from "@connectrpc/connect";
import { connectNodeAdapter, createConnectTransport } from "@connectrpc/connect-node";
import { afterEach, before, beforeEach, describe, it } from "mocha";
import { PingService } from "../../../proto/gen/ping/v1/ping_pb.ts";
import { SpiffeWorkloadAPI } from "../../../proto/gen/spiffe/workload_pb.ts";
import { parseSpiffeId } from "../../../controller/identity/spiffe-id.ts";
import { describeError } from "../../../controller/platform/errors.ts";
import { exactly } from "../../../controller/spiffe/authorize.ts";
import { type ClientSessions, createClientSessions } from "../../../controller/spiffe/client-sessions.ts";
import type { LeafVerdict } from "../../../controller/spiffe/leaf.ts";
import { createTlsServer, type TlsServer } from "../../../controller/spiffe/tls-server.ts";
import { SvidUnavailableError } from "../../../controller/spiffe/x509-source.ts";
import { createFakeClock, type FakeClock, settle } from "../../fakes/fake-clock.ts";
import { createTestCa, issueLeaf, type LeafOptions, type TestCa } from "../../support/test-pki.ts";
import { asSvid, createSettableSource, type SettableSource } from "./settable-source.ts";

const facadeId = parseSpiffeId("spiffe://example.org/controller");
const jobId = parseSpiffeId("spiffe://example.org/ci/owner/repo/build");
const peerKey = createContextKey<LeafVerdict>({ ok: false, reason: "not set" });
const closeGraceMs = 5_000;

describe("client sessions", () => {
  let ca: TestCa;
  let clock: FakeClock;
  let jobSource: SettableSource;
  let resources: AsyncDisposableStack;
  /** The certificates that the peers of the servers showed, one for each session. */
  let seen: string[];
  let streams: (() => void)[];

  before(async () => {
    ca = await createTestCa();
  });
  beforeEach(async () => {
    resources = new AsyncDisposableStack();
    clock = createFakeClock(Date.now());
    jobSource = createSettableSource(await job());
    seen = [];
    streams = [];
  });
  afterEach(async () => {
    await resources.disposeAsync();
    await settle();
    assert.deepEqual(clock.pending(), []);
  });

  const job = async (options: LeafOptions = {}, issuer = ca) =>
    asSvid(jobId, await issueLeaf(issuer, jobId, options), ca);
  const facade = async (options: LeafOptions = {}, issuer = ca) =>
    asSvid(facadeId, await issueLeaf(issuer, facadeId, options), ca);

  /** A server whose Ping answers with the peer's ID, and whose stream goes on until the test ends it. */
  async function serve(source: SettableSource, host = "127.0.0.1", port = 0): Promise<[TlsServer, number]> {
    const server = createTlsServer({ source, clock, onRefused: () => {}, limits: { closeGraceMs } });
    server.server.on("session", (session) => {
      assert.ok(session.socket instanceof TLSSocket);
      seen.push(session.socket.getPeerX509Certificate()?.serialNumber ?? "");
    });
    const adapter = connectNodeAdapter({
      contextValues: (request) => {
        const session = "stream" in request ? request.stream.session : undefined;
        return createContextValues().set(peerKey, server.peerOf(session));
      },
      routes: (router) => {
        router.service(PingService, {
          ping: (_request, { values }) => {
            const peer = values.get(peerKey);
            if (!peer.ok) throw new ConnectError(peer.reason, Code.Unauthenticated);
            return { data: peer.id };
          },
        });
        router.service(SpiffeWorkloadAPI, {
          async *fetchX509SVID() {
            yield {};
            await new Promise<void>((resolve) => streams.push(resolve));
            yield {};
          },
        });
      },
    });
    server.server.on("request", (request, response) => adapter(request, response));
    const bound = await server.listen({ host, port });
    resources.defer(async () => {
      const stopped = server.stop();
      await clock.step(closeGraceMs);
      await stopped;
    });
    return [server, bound.port];
  }

  type Dialled = { readonly ping: Client<typeof PingService>; readonly sessions: ClientSessions };

  function dial(port: number, lookup?: LookupFunction, pings = {}): Dialled {
    const baseUrl = lookup === undefined ? `https://127.0.0.1:${port}` : `https://facade.example:${port}`;
    const common = { source: jobSource, authorize: exactly(facadeId), clock, ...pings };
    const sessions = resources.use(createClientSessions({ baseUrl, ...common, ...(lookup && { lookup }) }));
    return { ping: createClient(PingService, transport(baseUrl, sessions)), sessions };
  }

  const transport = (baseUrl: string, sessionManager: ClientSessions) =>
    createConnectTransport({ baseUrl, httpVersion: "2", sessionManager });

  const addresses =
    (...list: readonly string[]): LookupFunction =>
    (_host, _options, callback) =>
      callback(
        null,
        list.map((address) => ({ address, family: 4 })),
      );

  it("carry calls between two workloads that know each other by their exact IDs", async () => {
    const [, port] = await serve(createSettableSource(await facade()));
    assert.equal((await dial(port).ping.ping({})).data, jobId);
  });

  const impostors: readonly (readonly [string, () => Promise<SettableSource>, RegExp])[] = [
    [
      "another workload",
      async () => createSettableSource(asSvid(facadeId, await issueLeaf(ca, `${facadeId}/x`), ca)),
      /the peer is spiffe:\/\/example\.org\/controller\/x, expected is spiffe:\/\/example\.org\/controller$/,
    ],
    [
      "a CA of another trust domain",
      async () => createSettableSource(await facade({}, await createTestCa("federated.example"))),
      /unable to verify/,
    ],
    ["a CA certificate", async () => createSettableSource(await facade({ ca: true })), /certificate of a CA/],
    ["two IDs", async () => createSettableSource(await facade({ uris: [facadeId, jobId] })), /2 URI names/],
    [
      "an expired SVID",
      async () => createSettableSource(await facade({ notAfter: Date.now() - 2_000 })),
      /certificate has expired/,
    ],
  ];
  for (const [what, make, message] of impostors) {
    it(`do not talk to a server with ${what}`, async () => {
      const [, port] = await serve(await make());
      await assert.rejects(dial(port).ping.ping({}), (error) => {
        assert.match(describeError(error), message);
        return true;
      });
    });
  }

  it("dial again after a failure", async () => {
    const reserved = net.createServer().listen(0, "127.0.0.1");
    await once(reserved, "listening");
    const { port } = reserved.address() as AddressInfo;
    reserved.close();
    await once(reserved, "close");
    const { ping } = dial(port);
    await assert.rejects(ping.ping({}), (error) => ConnectError.from(error).code === Code.Unavailable);
    await serve(createSettableSource(await facade()), "127.0.0.1", port);
    assert.equal((await ping.ping({})).data, jobId);
  });

  it("dial with the SVID of the moment, so a refused one heals with the next", async () => {
    const [, port] = await serve(createSettableSource(await facade()));
    jobSource = createSettableSource(await job({}, await createTestCa()));
    const { ping } = dial(port);
    await assert.rejects(ping.ping({}));
    jobSource.set(await job());
    assert.equal((await ping.ping({})).data, jobId);
  });

  it("fail calls while there is no valid SVID, and recover", async () => {
    const [, port] = await serve(createSettableSource(await facade()));
    const good = jobSource.current();
    const source: SettableSource = {
      ...jobSource,
      current: () => {
        throw new SvidUnavailableError("it expired");
      },
    };
    const baseUrl = `https://127.0.0.1:${port}`;
    const sessions = resources.use(
      createClientSessions({ baseUrl, source, authorize: exactly(facadeId), clock }),
    );
    const ping = createClient(PingService, transport(baseUrl, sessions));
    await assert.rejects(
      ping.ping({}),
      (error) => error instanceof ConnectError && error.cause instanceof SvidUnavailableError,
    );
    source.current = () => good;
    assert.equal((await ping.ping({})).data, jobId);
  });

  it("try the next address in the same call where nobody listens on the first", async () => {
    const [, port] = await serve(createSettableSource(await facade()), "127.0.0.3");
    const { ping } = dial(port, addresses("127.0.0.1", "127.0.0.2", "127.0.0.3"));
    assert.equal((await ping.ping({})).data, jobId);
  });

  it("try the next address in the next call where somebody else answered on the first", async () => {
    const [, port] = await serve(createSettableSource(await facade()), "127.0.0.2");
    const other = createSettableSource(asSvid(facadeId, await issueLeaf(ca, `${facadeId}/x`), ca));
    await serve(other, "127.0.0.1", port);
    const { ping } = dial(port, addresses("127.0.0.1", "127.0.0.2"));
    await assert.rejects(ping.ping({}), /the peer is/);
    assert.equal((await ping.ping({})).data, jobId);
  });

  it("fail calls to a name that does not resolve", async () => {
    const { ping } = dial(1, (_host, _options, callback) => {
      const error: NodeJS.ErrnoException = new Error("getaddrinfo ENOTFOUND facade.example");
      error.code = "ENOTFOUND";
      callback(error, []);
    });
    await assert.rejects(ping.ping({}), (error) => ConnectError.from(error).code === Code.Unavailable);
  });

  it("give up a peer that takes the connection and says nothing", async () => {
    const silent = net.createServer((socket) => void socket.on("error", () => {}).resume());
    silent.listen(0, "127.0.0.1");
    await once(silent, "listening");
    const connected = once(silent, "connection");
    const { ping } = dial((silent.address() as AddressInfo).port);
    const failed = assert.rejects(ping.ping({}), /no TLS handshake within 5 s/);
    await connected;
    await clock.step(5_000);
    await failed;
    silent.close();
    await once(silent, "close");
  });

  it("use a rotated SVID on a new connection and drop no call, while both sides rotate", async () => {
    const facadeSource = createSettableSource(await facade());
    const [, port] = await serve(facadeSource);
    const { ping } = dial(port);
    const serials: string[] = [];
    const answers: string[] = [];
    const done = new AbortController();
    const caller = async () => {
      while (!done.signal.aborted) {
        answers.push((await ping.ping({})).data);
      }
    };
    const callers = Promise.all([caller(), caller(), caller(), caller()]);
    for (let round = 0; round < 5; round++) {
      const leaf = await issueLeaf(ca, jobId);
      serials.push(leaf.certificate.serialNumber);
      facadeSource.set(await facade());
      jobSource.set(asSvid(jobId, leaf, ca));
      const enough = answers.length + 20;
      while (answers.length < enough) await settle();
    }
    done.abort();
    await callers;
    assert.deepEqual(new Set(answers), new Set([jobId]));
    assert.deepEqual(seen.slice(-serials.length), serials);
  });

  it("leave a call that runs on its connection when the SVID is rotated", async () => {
    const [, port] = await serve(createSettableSource(await facade()));
    const { ping, sessions } = dial(port);
    const stream = createClient(SpiffeWorkloadAPI, transport(`https://127.0.0.1:${port}`, sessions));
    const messages = stream.fetchX509SVID({})[Symbol.asyncIterator]();
    await messages.next();
    jobSource.set(await job());
    await ping.ping({});
    assert.equal(seen.length, 2);
    streams[0]?.();
    assert.equal((await messages.next()).done, false);
    assert.equal((await messages.next()).done, true);
  });

  it("dial again without an error after the server ended the session with its certificate", async () => {
    const [server, port] = await serve(createSettableSource(await facade()));
    const notAfter = Math.floor(Date.now() / 1000) * 1000 + 60_000;
    jobSource = createSettableSource(await job({ notAfter }));
    const source = { ...jobSource, onUpdate: () => () => {} };
    const baseUrl = `https://127.0.0.1:${port}`;
    const sessions = resources.use(
      createClientSessions({ baseUrl, source, authorize: exactly(facadeId), clock }),
    );
    const ping = createClient(PingService, transport(baseUrl, sessions));
    await ping.ping({});
    jobSource.set(await job());
    const closed = new Promise((resolve) => server.server.once("session", resolve));
    await clock.step(notAfter - clock.now());
    await settle();
    assert.equal((await ping.ping({})).data, jobId);
    await closed;
    assert.equal(seen.length, 2);
  });

  /** Passes on what comes for a port, until what has come so far is cut off without a word, as by a dead machine. */
  async function passOn(port: number): Promise<{ readonly port: number; freeze(): void }> {
    const sockets: net.Socket[] = [];
    const proxy = net.createServer((near) => {
      const far = net.connect(port, "127.0.0.1");
      for (const socket of [near, far]) socket.on("error", () => {});
      sockets.push(near, far);
      near.pipe(far).pipe(near);
    });
    resources.defer(() => {
      for (const socket of sockets) socket.destroy();
      proxy.close();
    });
    proxy.listen(0, "127.0.0.1");
    await once(proxy, "listening");
    const freeze = () => {
      for (const socket of sockets) socket.unpipe().pause();
    };
    return { port: (proxy.address() as AddressInfo).port, freeze };
  }

  it("give up a connection on which a ping stays unanswered: its calls fail, and the next one dials anew", async () => {
    const [, port] = await serve(createSettableSource(await facade()));
    const way = await passOn(port);
    const { ping, sessions } = dial(way.port, undefined, { pingIntervalMs: 50, pingTimeoutMs: 500 });
    const stream = createClient(SpiffeWorkloadAPI, transport(`https://127.0.0.1:${way.port}`, sessions));
    const messages = stream.fetchX509SVID({})[Symbol.asyncIterator]();
    await messages.next();
    way.freeze();
    await assert.rejects(messages.next());
    assert.equal((await ping.ping({})).data, jobId);
    assert.equal(seen.length, 2);
  });

  it("dial anew when they are told to, and end all calls when they are disposed of", async () => {
    const [, port] = await serve(createSettableSource(await facade()));
    const { ping, sessions } = dial(port);
    await ping.ping({});
    sessions.redial();
    await ping.ping({});
    assert.equal(seen.length, 2);
    const stream = createClient(SpiffeWorkloadAPI, transport(`https://127.0.0.1:${port}`, sessions));
    const messages = stream.fetchX509SVID({})[Symbol.asyncIterator]();
    await messages.next();
    sessions[Symbol.dispose]();
    await assert.rejects(messages.next());
  });

  it("may be disposed of while they dial", async () => {
    const silent = net.createServer((socket) => void socket.on("error", () => {}).resume());
    silent.listen(0, "127.0.0.1");
    await once(silent, "listening");
    const connected = once(silent, "connection");
    const { ping, sessions } = dial((silent.address() as AddressInfo).port);
    const failed = assert.rejects(ping.ping({}));
    await connected;
    sessions[Symbol.dispose]();
    await failed;
    silent.close();
    await once(silent, "close");
  });

  it("are for https addresses only", () => {
    const options = { source: jobSource, authorize: exactly(facadeId), clock };
    assert.throws(
      () => createClientSessions({ ...options, baseUrl: "http://127.0.0.1:1" }),
      /no https address/,
    );
  });
});
