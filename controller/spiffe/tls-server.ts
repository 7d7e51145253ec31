import http2, { type Http2SecureServer, type Http2Session } from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { trustDomainOf } from "../identity/spiffe-id.ts";
import type { Clock } from "../platform/clock.ts";
import type { LeafVerdict } from "./leaf.ts";
import { identifyPeer } from "./peer.ts";
import { secureContextOptions } from "./secure-context.ts";
import { createSessionLifetimes } from "./session-lifetimes.ts";
import type { SvidSource } from "./x509-source.ts";

export type RefusedPeer = {
  /** An OpenSSL code such as CERT_HAS_EXPIRED, or a sentence. */
  readonly reason: string;
  readonly remoteAddress: string | undefined;
};

export type TlsServerOptions = {
  readonly source: SvidSource;
  readonly clock: Clock;
  /** Called for each handshake that failed and each certificate that is no good SVID; nothing else tells of them. */
  readonly onRefused: (peer: RefusedPeer) => void;
  /** Until a session has to be dialled again, whatever its certificate says; an hour if not given. */
  readonly maxSessionAgeMs?: number;
  /** How long running calls may go on after a session's end; 5 s if not given. */
  readonly closeGraceMs?: number;
};

/** An HTTP/2 server that takes only peers with an X.509-SVID of our own trust domain. Disposing of it stops it. */
export type TlsServer = AsyncDisposable & {
  /** For the `request` listener, connectNodeAdapter for one. */
  readonly server: Http2SecureServer;
  /** Rejects if the address cannot be listened on. */
  listen(address: { readonly host?: string; readonly port: number }): Promise<AddressInfo>;
  /**
   * Who made a request, with `request.stream.session`; never throws, and refuses a certificate that has expired
   * since the session began. What the ID may do is for the caller to decide.
   */
  peerOf(session: Http2Session | undefined): LeafVerdict;
  /** Takes no more sessions and ends those that are open; resolves when all are closed. */
  stop(): Promise<void>;
};

const handshakeTimeoutMs = 10_000;
const defaultMaxSessionAgeMs = 3_600_000;
const defaultCloseGraceMs = 5_000;

/**
 * Makes the server with the SVID of this moment and follows the source: a rotated SVID or bundle counts for each
 * handshake after it, sessions that are open go on. Throws SvidUnavailableError if there is no valid SVID.
 */
export function createTlsServer(options: TlsServerOptions): TlsServer {
  const { source, clock, onRefused } = options;
  const { maxSessionAgeMs = defaultMaxSessionAgeMs, closeGraceMs = defaultCloseGraceMs } = options;
  const first = source.current();
  const trustDomain = trustDomainOf(first.id);
  const server = http2.createSecureServer({
    ...secureContextOptions(first),
    requestCert: true,
    rejectUnauthorized: true,
    allowHTTP1: false,
    ALPNProtocols: ["h2"],
    handshakeTimeout: handshakeTimeoutMs,
  });
  const stopFollowing = source.onUpdate((svid) => server.setSecureContext(secureContextOptions(svid)));
  const connections = trackConnections(server);
  const lifetimes = createSessionLifetimes(clock, closeGraceMs);
  const peers = new WeakMap<Http2Session, LeafVerdict>();
  server.on("session", (session) => {
    const peer = identifyPeer(session, trustDomain, clock.now());
    peers.set(session, peer);
    if (!peer.ok) onRefused({ reason: peer.reason, remoteAddress: session.socket.remoteAddress });
    const oldest = clock.now() + maxSessionAgeMs;
    lifetimes.add(session, peer.ok ? Math.min(oldest, peer.notAfter) : oldest);
  });
  server.on("tlsClientError", (error, socket) => onRefused(refusedHandshake(error, socket)));
  const stop = async () => {
    stopFollowing();
    const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
    await lifetimes.endAll();
    for (const connection of connections) connection.destroy();
    await closed;
  };
  let stopping: Promise<void> | undefined;
  const stopOnce = () => (stopping ??= stop());
  return {
    server,
    listen: (address) => listen(server, address),
    peerOf: (session) => atTime(session && peers.get(session), clock.now()),
    stop: stopOnce,
    [Symbol.asyncDispose]: stopOnce,
  };
}

function atTime(peer: LeafVerdict | undefined, now: number): LeafVerdict {
  if (peer === undefined) return { ok: false, reason: "its session is not known" };
  if (!peer.ok || now < peer.notAfter) return peer;
  return { ok: false, reason: `it expired at ${new Date(peer.notAfter).toISOString()}` };
}

/** The open connections, including those that are still shaking hands. */
function trackConnections(server: Http2SecureServer): ReadonlySet<Socket> {
  const connections = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    connections.add(socket);
    socket.once("close", () => connections.delete(socket));
    // A socket remembers its peer's address only if it was asked before it was closed.
    void socket.remoteAddress;
  });
  return connections;
}

/** The error itself says only that the connection was reset; why we refused a certificate stands in the socket. */
function refusedHandshake(error: NodeJS.ErrnoException, socket: TLSSocket): RefusedPeer {
  const verdict: unknown = socket.authorizationError;
  const reason = typeof verdict === "string" ? verdict : (error.code ?? error.message);
  // A closed TLSSocket has forgotten the address; the connection below it has no public name.
  const below: unknown = Reflect.get(socket, "_parent");
  const remoteAddress = below instanceof Object && "remoteAddress" in below ? below.remoteAddress : undefined;
  return { reason, remoteAddress: typeof remoteAddress === "string" ? remoteAddress : socket.remoteAddress };
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
