import assert from "node:assert/strict";
import { once } from "node:events";
import http2, { type ClientHttp2Session, constants } from "node:http2";
import net from "node:net";
import tls from "node:tls";
import { afterEach, before, beforeEach, describe, it } from "mocha";
import { parseSpiffeId } from "../../../controller/identity/spiffe-id.ts";
import type { RefusedPeer } from "../../../controller/spiffe/refused-peer.ts";
import type { TlsLimits } from "../../../controller/spiffe/tls-limits.ts";
import { createTlsServer, type TlsServer } from "../../../controller/spiffe/tls-server.ts";
import { createFakeClock, type FakeClock, settle } from "../../fakes/fake-clock.ts";
import { createTestCa, issueLeaf, type TestCa, type TestLeaf } from "../../support/test-pki.ts";
import { asSvid, createSettableSource, type SettableSource } from "./settable-source.ts";

const facadeId = parseSpiffeId("spiffe://example.org/controller");
const jobId = "spiffe://example.org/ci/owner/repo/build";
const otherId = "spiffe://example.org/ci/owner/repo/other";
const limits: Partial<TlsLimits> = {
  closeGraceMs: 5_000,
  idleMs: 120_000,
  bodyMs: 30_000,
  callMs: 60_000,
  sessions: 5,
  sessionsPerPeer: 3,
  handshakesPerAddress: 10,
  connections: 20,
};

describe("limits of a TLS server", () => {
  let ca: TestCa;
  let secondCa: TestCa;
  let job: TestLeaf;
  let other: TestLeaf;
  let source: SettableSource;
  let clock: FakeClock;
  let refusals: RefusedPeer[];
  let server: TlsServer;
  let port: number;
  let resources: AsyncDisposableStack;
  /** Requests that arrived; those to /wait stay without an answer. */
  let arrived: http2.Http2ServerRequest[];

  before(async () => {
    [ca, secondCa] = await Promise.all([createTestCa(), createTestCa()]);
    [job, other] = await Promise.all([issueLeaf(ca, jobId), issueLeaf(ca, otherId)]);
  });
  beforeEach(async () => {
    resources = new AsyncDisposableStack();
    clock = createFakeClock(Date.now());
    source = createSettableSource(asSvid(facadeId, await issueLeaf(ca, facadeId), ca, secondCa));
    refusals = [];
    arrived = [];
    server = createTlsServer({ source, clock, onRefused: (peer) => refusals.push(peer), limits });
    server.server.on("request", (request, response) => {
      arrived.push(request);
      request.resume();
      if (request.url === "/large") response.end(Buffer.alloc(8 * 1024 * 1024));
      else if (request.url !== "/wait") response.end("served");
    });
    ({ port } = await server.listen({ host: "127.0.0.1", port: 0 }));
    resources.defer(async () => {
      const stopped = server.stop();
      await clock.step(5_000);
      await stopped;
      assert.deepEqual(clock.pending(), []);
    });
  });
  afterEach(() => resources.disposeAsync());

  const dial = (leaf: TestLeaf) => {
    const socket = tls.connect({
      host: "127.0.0.1",
      port,
      ca: [ca.pem],
      ALPNProtocols: ["h2"],
      checkServerIdentity: () => undefined,
      cert: leaf.chainPem,
      key: leaf.keyPem,
    });
    socket.on("error", () => undefined);
    resources.defer(() => void socket.destroy());
    return socket;
  };
  const connect = (leaf = job): ClientHttp2Session => {
    const session = http2.connect("https://facade.invalid", { createConnection: () => dial(leaf) });
    session.on("error", () => undefined);
    resources.defer(() => session.destroy());
    return session;
  };
  /** "served", or how the call failed. */
  const ask = async (session: ClientHttp2Session, headers: http2.OutgoingHttpHeaders = {}) => {
    if (session.destroyed) return "no session";
    const stream = session.request({ ":path": "/", ...headers });
    let body = "";
    try {
      for await (const chunk of stream.setEncoding("utf8")) body += chunk;
      return body === "" ? `reset ${stream.rstCode}` : body;
    } catch {
      return `reset ${stream.rstCode}`;
    }
  };
  /** Resolves when it is closed, with or without an error. */
  const closing = (closable: { once(event: "close", listener: () => void): unknown }) =>
    new Promise<void>((resolve) => void closable.once("close", resolve));
  const until = async (fits: () => boolean) => {
    while (!fits()) await settle();
  };
  const kinds = () => refusals.map(({ kind }) => kind);

  it("refuses the newest session of a peer beyond its number, and says so; the others go on", async () => {
    const sessions = [connect(), connect(), connect()];
    for (const session of sessions) assert.equal(await ask(session), "served");
    const fourth = connect();
    await closing(fourth);
    assert.deepEqual(refusals, [
      {
        kind: "too-many",
        reason: "too many open sessions of this peer",
        remoteAddress: "127.0.0.1",
        spiffeId: jobId,
      },
    ]);
    assert.equal(await ask(connect(other)), "served");
    for (const session of sessions) assert.equal(await ask(session), "served");
    assert.equal(server.sessions(), 4);
    sessions[0]?.destroy();
    await until(() => server.sessions() === 3);
    assert.equal(await ask(connect()), "served");
  });

  it("refuses the newest session beyond the number of all", async () => {
    const sessions = [connect(), connect(), connect(), connect(other), connect(other)];
    for (const session of sessions) assert.equal(await ask(session), "served");
    const sixth = connect(other);
    await closing(sixth);
    assert.equal(refusals[0]?.reason, "too many open sessions");
    for (const session of sessions) assert.equal(await ask(session), "served");
  });

  it("shakes hands with so many of one address at once only, and takes a port probe for one", async () => {
    const silent = Array.from({ length: 10 }, () => net.connect(port, "127.0.0.1"));
    for (const socket of silent) resources.defer(() => void socket.on("error", () => undefined).destroy());
    await Promise.all(silent.map((socket) => once(socket, "connect")));
    const eleventh = net.connect(port, "127.0.0.1").on("error", () => undefined);
    await closing(eleventh);
    assert.deepEqual(refusals, [
      {
        kind: "too-many",
        reason: "too many handshakes of this address",
        remoteAddress: "127.0.0.1",
      },
    ]);
    for (const socket of silent) socket.destroy();
    await until(() => refusals.length === 11);
    assert.deepEqual(new Set(kinds().slice(1)), new Set(["probe"]));
    assert.equal(await ask(connect()), "served");
  });

  it("takes no more connections than it may have, whoever makes them", async () => {
    const few = createTlsServer({
      source,
      clock,
      onRefused: (peer) => refusals.push(peer),
      limits: { ...limits, connections: 2 },
    });
    resources.use(few);
    const address = await few.listen({ host: "127.0.0.1", port: 0 });
    const sockets = Array.from({ length: 3 }, () => net.connect(address.port, "127.0.0.1"));
    const closed = sockets.map(async (socket, index) => {
      await closing(socket.on("error", () => undefined));
      return index;
    });
    await until(() => refusals.length > 0);
    assert.deepEqual(kinds(), ["too-many"]);
    await Promise.race(closed);
    for (const socket of sockets) socket.destroy();
  });

  it("lets 32 calls of a session run at once, the others wait at the client", async () => {
    const session = connect();
    await ask(session);
    assert.equal(session.remoteSettings.maxConcurrentStreams, 32);
    const streams = Array.from({ length: 40 }, () => session.request({ ":path": "/wait" }));
    for (const stream of streams) stream.on("error", () => undefined);
    await until(() => arrived.length >= 33);
    await settle();
    assert.equal(arrived.length, 33);
    session.destroy();
  });

  it("refuses calls whose headers are too large or too many, and serves the next one", async () => {
    const session = connect();
    assert.equal(await ask(session), "served");
    assert.equal(await ask(session, { "x-large": "x".repeat(20 * 1024) }), "reset 11");
    const many = Object.fromEntries(Array.from({ length: 70 }, (_, index) => [`x-${index}`, "x"]));
    assert.equal(await ask(session, many), "reset 11");
    assert.equal(arrived.length, 1);
    assert.equal(await ask(session), "served");
  });

  it("ends a session without a call after a while, not one whose call runs", async () => {
    const idle = connect();
    const busy = connect(other);
    for (const session of [idle, busy]) assert.equal(await ask(session), "served");
    await clock.step(119_000);
    assert.equal(await ask(idle), "served");
    const beat = async () => {
      assert.equal(await ask(busy), "served");
      await clock.step(60_000);
    };
    await beat();
    assert.equal(server.sessions(), 2);
    const closed = closing(idle);
    await beat();
    await clock.step(5_000);
    await closed;
    assert.equal(await ask(busy), "served");
  });

  it("resets a call whose body does not come to its end in time", async () => {
    const session = connect();
    const slow = session.request({ ":path": "/wait", ":method": "POST" });
    slow.write("x");
    await until(() => arrived.length === 1);
    const closed = closing(slow);
    slow.on("error", () => undefined);
    await clock.step(29_000);
    slow.write("x");
    assert.deepEqual(refusals, []);
    await clock.step(1_000);
    await closed;
    assert.equal(slow.rstCode, constants.NGHTTP2_ENHANCE_YOUR_CALM);
    assert.deepEqual(refusals, [
      {
        kind: "too-slow",
        reason: "its body does not end",
        remoteAddress: "127.0.0.1",
        spiffeId: jobId,
      },
    ]);
    assert.equal(await ask(session), "served");
  });

  it("resets a call whose answer nobody takes", async () => {
    const session = connect();
    const deaf = session.request({ ":path": "/large" });
    deaf.on("error", () => undefined);
    await once(deaf, "response");
    await clock.step(60_000);
    await until(() => refusals.length > 0);
    assert.equal(refusals[0]?.reason, "its answer is not taken");
    assert.equal(await ask(session), "served");
  });

  it("ends a session that begins calls only to reset them", async () => {
    const session = connect();
    await ask(session);
    const closed = closing(session);
    let made = 0;
    while (!session.destroyed && !session.closed && made < 20_000) {
      const batch = Array.from({ length: 20 }, () => session.request({ ":path": "/wait" }));
      for (const stream of batch) {
        stream.on("error", () => undefined);
        stream.close(constants.NGHTTP2_CANCEL);
      }
      made += batch.length;
      await settle();
    }
    await closed;
    assert.ok(made < 1_000, `${made} calls were begun and reset`);
    await until(() => kinds().includes("flood"));
    assert.equal(refusals[0]?.spiffeId, jobId);
  });

  const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  const emptySettings = "000000040000000000";
  for (const [what, frame] of [
    ["pings", "0000080600000000000000000000000000"],
    ["settings", emptySettings],
  ] as const)
    it(`ends a session that sends ${what} without end and reads no answer`, async () => {
      const socket = dial(job);
      await once(socket, "secureConnect");
      socket.pause();
      const closed = closing(socket);
      socket.write(Buffer.concat([Buffer.from(preface), Buffer.from(emptySettings, "hex")]));
      const flood = Buffer.from(frame.repeat(4_000), "hex");
      let sent = 0;
      while (!kinds().includes("flood") && sent < 500) {
        if (!socket.destroyed) socket.write(flood);
        sent++;
        await settle();
      }
      assert.ok(kinds().includes("flood"), `${sent * 4_000} were taken`);
      socket.resume();
      await closed;
      assert.equal(await ask(connect(other)), "served");
    });

  describe("when a CA leaves the bundle", () => {
    const withoutSecond = async () => source.set(asSvid(facadeId, await issueLeaf(ca, facadeId), ca));

    it("ends the sessions of its SVIDs, refuses their calls from that moment on, and leaves all others", async () => {
      const old = connect(await issueLeaf(secondCa, otherId));
      const stays = connect();
      for (const session of [old, stays]) assert.equal(await ask(session), "served");
      const waiting = old.request({ ":path": "/wait" });
      waiting.on("error", () => undefined);
      await until(() => arrived.length === 3);
      const goaway = once(old, "goaway");
      await withoutSecond();
      const verdict = server.peerOf(arrived[2]?.stream.session);
      assert.deepEqual(verdict, { ok: false, reason: "its CA has left the bundle" });
      await goaway;
      const closed = closing(old);
      await clock.step(5_000);
      await closed;
      assert.equal(await ask(stays), "served");
      assert.deepEqual(refusals, [
        {
          kind: "untrusted",
          reason: "its CA has left the bundle",
          remoteAddress: "127.0.0.1",
          spiffeId: otherId,
        },
      ]);
    });

    it("ends also those below an intermediate CA, because which one they led to is not known", async () => {
      const intermediate = await createTestCa("example.org", ca);
      const session = connect(await issueLeaf(intermediate, jobId));
      assert.equal(await ask(session), "served");
      source.set(asSvid(facadeId, await issueLeaf(ca, facadeId), ca, secondCa, await createTestCa()));
      assert.equal(await ask(session), "served");
      const goaway = once(session, "goaway");
      await withoutSecond();
      await goaway;
    });

    it("refuses whoever shook hands with it still in the bundle", async () => {
      const [leaf, facadeLeaf] = await Promise.all([issueLeaf(secondCa, otherId), issueLeaf(ca, facadeId)]);
      // Node makes the session when hands are shaken: between that and its first look is our update.
      server.server.prependOnceListener("secureConnection", () => {
        source.set(asSvid(facadeId, facadeLeaf, ca));
      });
      const socket = dial(leaf);
      await once(socket, "secureConnect");
      socket.write(Buffer.concat([Buffer.from(preface), Buffer.from(emptySettings, "hex")]));
      await until(() => refusals.length > 0);
      assert.deepEqual(kinds(), ["untrusted"]);
    });
  });

  it("says nothing of a session that its peer has given up, politely or not", async () => {
    for (const code of [constants.NGHTTP2_NO_ERROR, constants.NGHTTP2_CANCEL]) {
      const session = connect();
      assert.equal(await ask(session), "served");
      session.destroy(undefined, code);
    }
    const cut = dial(job);
    await once(cut, "secureConnect");
    cut.write(Buffer.concat([Buffer.from(preface), Buffer.from(emptySettings, "hex")]));
    await until(() => server.sessions() === 1);
    cut.destroy();
    await until(() => server.sessions() === 0);
    await settle();
    assert.deepEqual(refusals, []);
  });

  it("ends a session soon when it is told that nobody needs it", async () => {
    server.server.once("session", (open) => server.endSoon(open));
    const session = connect();
    assert.equal(await ask(session), "served");
    const goaway = once(session, "goaway");
    await clock.step(5_000);
    await goaway;
  });

  it("ends a session without a good SVID when it has said why", async () => {
    const session = connect(await issueLeaf(ca, jobId, { ca: true }));
    assert.equal(await ask(session), "served");
    const goaway = once(session, "goaway");
    await clock.step(5_000);
    await goaway;
    assert.deepEqual(kinds(), ["no-svid"]);
  });
});
