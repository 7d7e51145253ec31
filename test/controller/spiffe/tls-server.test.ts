import assert from "node:assert/strict";
import { once } from "node:events";
import http2, { type ClientHttp2Session, type ClientHttp2Stream } from "node:http2";
import https from "node:https";
import net from "node:net";
import tls from "node:tls";
import { afterEach, before, beforeEach, describe, it } from "mocha";
import { parseSpiffeId } from "../../../controller/identity/spiffe-id.ts";
import type { LeafVerdict } from "../../../controller/spiffe/leaf.ts";
import type { PeerRefusal } from "../../../controller/spiffe/refused-peer.ts";
import { createTlsServer, type RefusedPeer, type TlsServer } from "../../../controller/spiffe/tls-server.ts";
import { createFakeClock, type FakeClock, settle } from "../../fakes/fake-clock.ts";
import {
  createTestCa,
  issueLeaf,
  type LeafOptions,
  type TestCa,
  type TestLeaf,
} from "../../support/test-pki.ts";
import { asSvid, createSettableSource, type SettableSource } from "./settable-source.ts";

const facadeId = parseSpiffeId("spiffe://example.org/controller");
const jobId = parseSpiffeId("spiffe://example.org/ci/owner/repo/build");
const otherId = "spiffe://example.org/ci/owner/repo/other";
const sessionAgeMs = 600_000;
const closeGraceMs = 5_000;
const idleMs = 120_000;
const callMs = 2 * sessionAgeMs;
const limits = { sessionAgeMs, closeGraceMs, idleMs, callMs };

describe("TLS server", () => {
  let ca: TestCa;
  let secondCa: TestCa;
  let federatedCa: TestCa;
  let source: SettableSource;
  let clock: FakeClock;
  let refusals: RefusedPeer[];
  let server: TlsServer;
  let port: number;
  let resources: AsyncDisposableStack;
  /** Calls to /wait that have not been answered. */
  let held: http2.Http2ServerResponse[];

  before(async () => {
    [ca, secondCa, federatedCa] = await Promise.all([
      createTestCa(),
      createTestCa(),
      createTestCa("federated.example"),
    ]);
  });
  beforeEach(async () => {
    resources = new AsyncDisposableStack();
    clock = createFakeClock(Date.now());
    source = createSettableSource(asSvid(facadeId, await issueLeaf(ca, facadeId), ca, secondCa));
    refusals = [];
    held = [];
    const onRefused = (peer: RefusedPeer) => refusals.push(peer);
    server = createTlsServer({ source, clock, onRefused, limits });
    server.server.on("request", (request, response) => {
      if (request.url === "/wait") held.push(response.writeHead(200));
      else response.end(JSON.stringify(server.peerOf(request.stream.session)));
    });
    ({ port } = await server.listen({ host: "127.0.0.1", port: 0 }));
    resources.defer(async () => {
      const stopped = server.stop();
      await clock.step(closeGraceMs);
      await stopped;
      assert.deepEqual(clock.pending(), []);
    });
  });
  afterEach(() => resources.disposeAsync());

  const dial = (leaf: TestLeaf | undefined, options: tls.ConnectionOptions = {}) =>
    tls.connect({
      host: "127.0.0.1",
      port,
      ca: [ca.pem, secondCa.pem],
      ALPNProtocols: ["h2"],
      checkServerIdentity: () => undefined,
      ...(leaf && { cert: leaf.chainPem, key: leaf.keyPem }),
      ...options,
    });

  function connect(leaf: TestLeaf | undefined): ClientHttp2Session {
    const session = http2.connect("https://facade.invalid", { createConnection: () => dial(leaf) });
    session.on("error", () => {});
    resources.defer(() => session.destroy());
    return session;
  }

  async function text(stream: ClientHttp2Stream): Promise<string> {
    let body = "";
    for await (const chunk of stream.setEncoding("utf8")) body += chunk;
    return body;
  }

  /** What the server says about its peer on this session; undefined if it never answers. */
  async function ask(session: ClientHttp2Session): Promise<LeafVerdict | undefined> {
    try {
      const body = await text(session.request({ ":path": "/" }));
      return body === "" ? undefined : JSON.parse(body);
    } catch {
      return undefined;
    }
  }

  async function refusal(): Promise<RefusedPeer> {
    while (refusals[0] === undefined) await settle();
    return refusals[0];
  }

  const job = (options: LeafOptions = {}, issuer = ca) => issueLeaf(issuer, jobId, options);

  const accepted: readonly (readonly [string, () => Promise<TestLeaf>])[] = [
    ["an SVID", () => job()],
    ["an SVID of another root in the bundle", () => job({}, secondCa)],
    ["an SVID without extended key usage", () => job({ extendedKeyUsage: null })],
    ["an SVID with an empty subject", () => job({ subject: "" })],
    ["an SVID with its intermediate CA", async () => job({}, await createTestCa("example.org", ca))],
  ];
  for (const [what, make] of accepted) {
    it(`knows the peer with ${what}`, async () => {
      const leaf = await make();
      const notAfter = leaf.certificate.validToDate.getTime();
      assert.deepEqual(await ask(connect(leaf)), { ok: true, id: jobId, notAfter });
      assert.deepEqual(refusals, []);
    });
  }

  it("tells any other ID of the trust domain as it is: what it may do is not decided here", async () => {
    const peer = await ask(connect(await issueLeaf(ca, otherId)));
    assert.ok(peer?.ok);
    assert.equal(peer.id, otherId);
  });

  it("knows nobody without a session of its own, and says so without an error", async () => {
    const stranger = http2.connect("http://127.0.0.1:1");
    stranger.on("error", () => {});
    stranger.destroy();
    for (const session of [undefined, stranger])
      assert.deepEqual(server.peerOf(session), { ok: false, reason: "its session is not known" });
  });

  const unidentified: readonly (readonly [string, LeafOptions, RegExp])[] = [
    ["a CA certificate", { ca: true }, /certificate of a CA/],
    ["two IDs", { uris: [jobId, otherId] }, /2 URI names/],
    ["no ID", { uris: [], dnsNames: ["a.example.org"] }, /0 URI names/],
    ["an ID of another trust domain", { uris: ["spiffe://example.com/a"] }, /not of the trust domain/],
    ["the ID of the trust domain", { uris: ["spiffe://example.org"] }, /ID of a trust domain/],
  ];
  for (const [what, options, reason] of unidentified) {
    it(`gives no identity to a peer with ${what}, though node:tls takes it, and reports it`, async () => {
      const peer = await ask(connect(await job(options)));
      assert.equal(peer?.ok, false);
      assert.match(peer.reason, reason);
      assert.match((await refusal()).reason, reason);
      assert.equal(refusals[0]?.remoteAddress, "127.0.0.1");
    });
  }

  const refused: readonly (readonly [string, () => Promise<TestLeaf> | undefined, string, PeerRefusal])[] = [
    ["no certificate", () => undefined, "ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE", "no-certificate"],
    ["an expired SVID", () => job({ notAfter: Date.now() - 2_000 }), "CERT_HAS_EXPIRED", "expired"],
    [
      "an SVID that is not valid yet",
      () => job({ notBefore: Date.now() + 60_000 }),
      "CERT_NOT_YET_VALID",
      "not-yet-valid",
    ],
    [
      "our ID from the CA of another trust domain",
      () => job({}, federatedCa),
      "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
      "untrusted",
    ],
    [
      "a certificate for servers only",
      () => job({ extendedKeyUsage: ["serverAuth"] }),
      "INVALID_PURPOSE",
      "no-svid",
    ],
    ["no digitalSignature", () => job({ keyUsage: ["keyEncipherment"] }), "INVALID_PURPOSE", "no-svid"],
    [
      "an SVID whose intermediate CA is missing",
      async () => {
        const leaf = await job({}, await createTestCa("example.org", ca));
        return { ...leaf, chainPem: leaf.certificate.toString() };
      },
      "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
      "untrusted",
    ],
  ];
  for (const [what, make, reason, kind] of refused) {
    it(`refuses the handshake of a peer with ${what}, and reports it with its address`, async () => {
      assert.equal(await ask(connect(await make())), undefined);
      assert.deepEqual(await refusal(), { kind, reason, remoteAddress: "127.0.0.1" });
    });
  }

  /** The server refuses all of this, in the beginning and after its SVID was rotated. */
  async function refusesOldWays(): Promise<void> {
    const leaf = await job();
    const old = dial(leaf, { maxVersion: "TLSv1.2" });
    await assert.rejects(once(old, "secureConnect"), { code: "ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION" });

    const first = dial(leaf);
    const tickets: Buffer[] = [];
    first.on("session", (ticket) => tickets.push(ticket));
    await once(first, "secureConnect");
    first.resume().write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u0004\0\0\0\0\0");
    await once(first, "data").catch(() => {});
    const session = tickets[0] ?? first.getSession();
    first.destroy();
    assert.ok(session);
    const again = dial(leaf, { session });
    await once(again, "secureConnect");
    assert.equal(again.isSessionReused(), false);
    again.destroy();
  }

  it("speaks TLS 1.3 only and resumes no session", refusesOldWays);

  it("speaks TLS 1.3 only and resumes no session after a rotation", async () => {
    source.set(asSvid(facadeId, await issueLeaf(ca, facadeId), ca));
    await refusesOldWays();
  });

  it("speaks HTTP/2 only", async () => {
    const leaf = await job();
    const request = https.get({
      host: "127.0.0.1",
      port,
      ca: [ca.pem],
      cert: leaf.chainPem,
      key: leaf.keyPem,
      agent: false,
      checkServerIdentity: () => undefined,
    });
    const outcome = await Promise.race([
      once(request, "response").then(([response]) => response.statusCode),
      once(request, "error").then(([error]) => error.code),
    ]);
    assert.ok(outcome === 403 || String(outcome).includes("ALPN"), String(outcome));
  });

  it("shows a rotated SVID to each handshake after it, while open sessions go on", async () => {
    const leaf = await job();
    const shown = async () => {
      const socket = dial(leaf);
      await once(socket, "secureConnect");
      const serial = socket.getPeerX509Certificate()?.serialNumber;
      socket.destroy();
      return serial;
    };
    const session = connect(leaf);
    await ask(session);
    const next = await issueLeaf(ca, facadeId);
    assert.notEqual(await shown(), next.certificate.serialNumber);
    source.set(asSvid(facadeId, next, ca, secondCa));
    assert.equal(await shown(), next.certificate.serialNumber);
    assert.equal((await ask(session))?.ok, true);
  });

  it("trusts a CA no longer that has left the bundle", async () => {
    source.set(asSvid(facadeId, await issueLeaf(ca, facadeId), ca));
    assert.equal(await ask(connect(await job({}, secondCa))), undefined);
    // The client sends its root along, because it has it.
    assert.equal((await refusal()).reason, "SELF_SIGNED_CERT_IN_CHAIN");
  });

  it("ends a session when the certificate of its peer expires, and refuses it from that moment on", async () => {
    const notAfter = Math.floor(Date.now() / 1000) * 1000 + 60_000;
    const session = connect(await job({ notAfter }));
    assert.equal((await ask(session))?.ok, true);
    const waiting = session.request({ ":path": "/wait" });
    const answer = text(waiting);
    await once(waiting, "response");
    const goaway = once(session, "goaway");
    await clock.step(notAfter - clock.now());
    await goaway;
    assert.ok(held[0]);
    const late = server.peerOf(held[0].stream.session);
    assert.equal(late.ok, false);
    assert.match(late.reason, /it expired at/);
    held[0].end("the call that ran was let through");
    assert.equal(await answer, "the call that ran was let through");
    await once(session, "close");
  });

  it("ends a session at its maximum age, and cuts calls that outlast the grace", async () => {
    const session = connect(await job());
    assert.equal((await ask(session))?.ok, true);
    const waiting = session.request({ ":path": "/wait" });
    waiting.on("error", () => {});
    await once(waiting, "response");
    const goaway = once(session, "goaway");
    await clock.step(sessionAgeMs);
    await goaway;
    assert.equal(waiting.closed, false);
    const closed = once(session, "close");
    await clock.step(closeGraceMs);
    await closed;
    assert.equal(waiting.destroyed, true);
  });

  it("lets running calls finish when it stops, and takes no new connection", async () => {
    const leaf = await job();
    const session = connect(leaf);
    const waiting = session.request({ ":path": "/wait" });
    const answer = text(waiting);
    await once(waiting, "response");
    const stopped = server.stop();
    await once(session, "goaway");
    const refusedDial = dial(leaf);
    await assert.rejects(once(refusedDial, "secureConnect"), { code: "ECONNREFUSED" });
    held[0]?.end("done");
    assert.equal(await answer, "done");
    await stopped;
    assert.equal(server.peerOf(undefined).ok, false);
  });

  it("cuts connections that never finish their handshake when it stops", async () => {
    const socket = net.connect(port, "127.0.0.1");
    await once(server.server, "connection");
    const closed = once(socket, "close");
    await server.stop();
    await closed;
  });

  it("says why it cannot listen", async () => {
    const second = createTlsServer({ source, clock, onRefused: () => {} });
    await assert.rejects(second.listen({ host: "127.0.0.1", port }), { code: "EADDRINUSE" });
    await second.stop();
  });
});
