import http2, { constants, type Http2SecureServer, type Http2Session } from "node:http2";
import type { AddressInfo } from "node:net";
import type { TLSSocket } from "node:tls";
import { trustDomainOf } from "../identity/spiffe-id.ts";
import type { Clock } from "../platform/clock.ts";
import { type Bundle, readBundle, stillTrusted } from "./bundle.ts";
import { limitCall } from "./call-deadlines.ts";
import { connectionBelow, trackConnections } from "./connections.ts";
import type { LeafVerdict } from "./leaf.ts";
import { identifyPeer, type IdentifiedPeer } from "./peer.ts";
import { handshakeRefusal, type RefusedPeer } from "./refused-peer.ts";
import { secureContextOptions } from "./secure-context.ts";
import { createSessionLifetimes } from "./session-lifetimes.ts";
import { createSessionCounter } from "./session-limits.ts";
import { defaultTlsLimits, http2Limits, type TlsLimits } from "./tls-limits.ts";
import type { SvidSource } from "./x509-source.ts";

export type { RefusedPeer };

export type TlsServerOptions = {
  readonly source: SvidSource;
  readonly clock: Clock;
  /** Called for everybody who gets no service or loses it; nothing else tells of them. */
  readonly onRefused: (peer: RefusedPeer) => void;
  readonly limits?: Partial<TlsLimits>;
};

/** An HTTP/2 server that takes only peers with an X.509-SVID of our own trust domain. Disposing of it stops it. */
export type TlsServer = AsyncDisposable & {
  /** For the `request` listener. */
  readonly server: Http2SecureServer;
  /** Rejects if the address cannot be listened on. */
  listen(address: { readonly host?: string; readonly port: number }): Promise<AddressInfo>;
  /**
   * Who made a request, with `request.stream.session`; never throws, and refuses a certificate that has expired, or
   * whose CA has left the bundle, since the session began. What the ID may do is for the caller to decide.
   */
  peerOf(session: Http2Session | undefined): LeafVerdict;
  /** Ends a session that nobody needs any more: after a moment, so that its peer may end it first. */
  endSoon(session: Http2Session): void;
  /** How many sessions are open. */
  sessions(): number;
  /** Takes no more sessions and ends those that are open; resolves when all are closed. */
  stop(): Promise<void>;
};

/**
 * Makes the server with the SVID of this moment and follows the source: a rotated SVID counts for each handshake
 * after it, a rotated bundle also for the sessions that are open. Throws SvidUnavailableError if there is no valid
 * SVID.
 */
export function createTlsServer(options: TlsServerOptions): TlsServer {
  const { source, clock, onRefused } = options;
  const limits = { ...defaultTlsLimits, ...options.limits };
  const first = source.current();
  const trustDomain = trustDomainOf(first.id);
  const server = http2.createSecureServer({
    ...secureContextOptions(first),
    ...http2Limits,
    requestCert: true,
    rejectUnauthorized: true,
    allowHTTP1: false,
    ALPNProtocols: ["h2"],
    handshakeTimeout: limits.handshakeMs,
  });
  let bundle = readBundle(first.bundlePem);
  const connections = trackConnections(server, limits, onRefused, () => bundle);
  const lifetimes = createSessionLifetimes(clock, { graceMs: limits.closeGraceMs, idleMs: limits.idleMs });
  const counter = createSessionCounter({ total: limits.sessions, perKey: limits.sessionsPerPeer });
  const open = new Map<Http2Session, OpenPeer>();

  const stopFollowing = source.onUpdate((svid) => {
    server.setSecureContext(secureContextOptions(svid));
    bundle = readBundle(svid.bundlePem);
    for (const [session, peer] of open) {
      const verdict = verdictNow(peer, bundle);
      if (verdict === peer.verdict) continue;
      open.set(session, { ...peer, verdict });
      onRefused({ kind: "untrusted", reason: caGone, ...whoIs(session, peer.verdict) });
      lifetimes.endAt(session, clock.now());
    }
  });
  server.on("session", (session) => {
    // The bundle may have changed while hands were shaken.
    const verifiedWith = connections.bundleOf(session);
    const identified = { ...identifyPeer(session, trustDomain, clock.now()), verifiedWith };
    const peer = { ...identified, verdict: verdictNow(identified, bundle) };
    const { verdict } = peer;
    const who = whoIs(session, verdict);
    const key = verdict.ok ? verdict.id : "";
    const full = counter.enter(key);
    if (full !== undefined) {
      const whose = full === "all" ? "open sessions" : "open sessions of this peer";
      onRefused({ kind: "too-many", reason: `too many ${whose}`, ...who });
      session.on("error", () => undefined);
      session.destroy(undefined, constants.NGHTTP2_ENHANCE_YOUR_CALM);
      return;
    }
    open.set(session, peer);
    session.once("close", () => {
      open.delete(session);
      counter.leave(key);
    });
    if (!verdict.ok)
      onRefused({ kind: identified.verdict.ok ? "untrusted" : "no-svid", reason: verdict.reason, ...who });
    const oldest = clock.now() + (verdict.ok ? limits.sessionAgeMs : limits.closeGraceMs);
    lifetimes.add(session, verdict.ok ? Math.min(oldest, verdict.notAfter) : oldest);
    session.on("error", ({ code = "" }: NodeJS.ErrnoException) => {
      // Others are connections that broke, or were given up by the peer itself, as a client's are at its end.
      const ours = code.startsWith("ERR_HTTP2_") && code !== "ERR_HTTP2_SESSION_ERROR";
      if (ours) onRefused({ kind: "flood", reason: code, ...who });
    });
    session.on("stream", (stream) => {
      void limitCall(stream, limits, clock, (reason) => {
        onRefused({ kind: "too-slow", reason, ...who });
      });
    });
  });
  server.on("tlsClientError", (error, socket) => {
    if (!connections.wasRefused(socket)) onRefused(refusedHandshake(error, socket));
  });
  const stop = async () => {
    stopFollowing();
    const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
    await lifetimes.endAll();
    connections.destroyAll();
    await closed;
  };
  let stopping: Promise<void> | undefined;
  const stopOnce = () => (stopping ??= stop());
  return {
    server,
    listen: (address) => listen(server, address),
    peerOf: (session) => atTime(session && open.get(session)?.verdict, clock.now()),
    endSoon: (session) => lifetimes.endAt(session, clock.now() + limits.closeGraceMs),
    sessions: () => open.size,
    stop: stopOnce,
    [Symbol.asyncDispose]: stopOnce,
  };
}

type OpenPeer = IdentifiedPeer & { readonly verifiedWith: Bundle | undefined };

const caGone = "its CA has left the bundle";

function verdictNow({ verdict, leaf, verifiedWith }: OpenPeer, bundle: Bundle): LeafVerdict {
  if (!verdict.ok || (leaf !== undefined && stillTrusted(leaf, verifiedWith, bundle))) return verdict;
  return { ok: false, reason: caGone };
}

function whoIs({ socket }: Http2Session, verdict: LeafVerdict) {
  const { remoteAddress } = socket;
  return { remoteAddress, ...(verdict.ok ? { spiffeId: verdict.id } : {}) };
}

function atTime(peer: LeafVerdict | undefined, now: number): LeafVerdict {
  if (peer === undefined) return { ok: false, reason: "its session is not known" };
  if (!peer.ok || now < peer.notAfter) return peer;
  return { ok: false, reason: `it expired at ${new Date(peer.notAfter).toISOString()}` };
}

/** The error itself says only that the connection was reset; why we refused a certificate stands in the socket. */
function refusedHandshake(error: NodeJS.ErrnoException, socket: TLSSocket): RefusedPeer {
  const verdict: unknown = socket.authorizationError;
  const reason = typeof verdict === "string" ? verdict : (error.code ?? error.message);
  // A closed TLSSocket has forgotten the address.
  const below = connectionBelow(socket);
  const field = (name: string): unknown => (below === undefined ? undefined : Reflect.get(below, name));
  const address = field("remoteAddress");
  const bytes = field("bytesRead");
  return {
    kind: handshakeRefusal(reason, typeof bytes === "number" ? bytes : socket.bytesRead),
    reason,
    remoteAddress: typeof address === "string" ? address : socket.remoteAddress,
  };
}

async function listen(
  server: Http2SecureServer,
  address: { readonly host?: string; readonly port: number },
): Promise<AddressInfo> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once("error", reject);
  server.listen(address, resolve);
  try {
    await promise;
  } finally {
    server.off("error", reject);
  }
  const bound = server.address();
  if (bound === null || typeof bound === "string") throw new Error("the server does not listen on a port");
  return bound;
}
