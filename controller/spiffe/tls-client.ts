import { X509Certificate } from "node:crypto";
import dns from "node:dns";
import type { LookupFunction, TcpNetConnectOpts } from "node:net";
import tls, { type TLSSocket } from "node:tls";
import { trustDomainOf } from "../identity/spiffe-id.ts";
import type { Clock } from "../platform/clock.ts";
import { type AddressOrder, createAddressOrder } from "./address-order.ts";
import type { Authorizer } from "./authorize.ts";
import { verifyLeaf } from "./leaf.ts";
import { secureContextOptions } from "./secure-context.ts";
import type { SvidSource } from "./x509-source.ts";
import type { X509Svid } from "./x509-svid.ts";

export type TlsDialerOptions = {
  readonly source: Pick<SvidSource, "current">;
  /** A name or an IP address: it only says where to knock, the certificate says who answered. */
  readonly host: string;
  readonly port: number;
  readonly authorize: Authorizer;
  readonly clock: Clock;
  /** Until TCP and TLS must be through; 5 s if not given. */
  readonly handshakeTimeoutMs?: number;
  /** Resolves a name to all of its addresses; the system's resolver if not given. */
  readonly lookup?: LookupFunction;
};

const defaultHandshakeTimeoutMs = 5_000;

/**
 * Makes a function for `createConnection` of node:http2: each call dials with the SVID of that moment, and lets the
 * connection come up only if the peer's certificate leads to our bundle and its ID is authorised. It throws
 * SvidUnavailableError at once; everything else arrives as the socket's error.
 *
 * A name with several addresses (a headless Service of which only one Pod listens) is tried address by address as
 * far as TCP goes. An address where somebody else answered is tried last by the next call.
 */
export function createTlsDialer(options: TlsDialerOptions): () => TLSSocket {
  const { source, host, port, authorize, clock } = options;
  const { handshakeTimeoutMs = defaultHandshakeTimeoutMs, lookup = dns.lookup } = options;
  const order = createAddressOrder();
  const target: TcpNetConnectOpts = {
    host,
    port,
    lookup: orderedLookup(lookup, order),
    autoSelectFamily: true,
  };
  return () => {
    const svid = source.current();
    const socket = tls.connect({
      ...target,
      ...secureContextOptions(svid),
      ALPNProtocols: ["h2"],
      rejectUnauthorized: true,
      // Called once the chain is verified, in place of the comparison of host names; an error refuses the peer.
      checkServerIdentity: (_host, { raw }) =>
        peerFault(new X509Certificate(raw), svid, authorize, clock.now()),
    });
    remember(order, socket);
    limit(socket, handshakeTimeoutMs, clock);
    return socket;
  };
}

function peerFault(
  certificate: X509Certificate,
  svid: X509Svid,
  authorize: Authorizer,
  now: number,
): Error | undefined {
  const verdict = verifyLeaf(certificate, trustDomainOf(svid.id), now);
  if (!verdict.ok) return new Error(`the peer's certificate is no good SVID: ${verdict.reason}`);
  if (!authorize.allows(verdict.id))
    return new Error(`the peer is ${verdict.id}, expected is ${authorize.expected}`);
  return undefined;
}

function orderedLookup(lookup: LookupFunction, order: AddressOrder): LookupFunction {
  return (host, options, callback) =>
    lookup(host, { ...options, all: true }, (error, addresses, family) =>
      callback(error, Array.isArray(addresses) ? order.arrange(addresses) : addresses, family),
    );
}

/** An address counts as failed from TCP on until the peer has proved who it is. */
function remember(order: AddressOrder, socket: TLSSocket): void {
  socket.once("connect", () => {
    const address = socket.remoteAddress;
    if (address === undefined) return;
    order.failed(address);
    socket.once("secureConnect", () => order.succeeded(address));
  });
}

/** Cuts the connection if its handshake takes too long. */
function limit(socket: TLSSocket, timeoutMs: number, clock: Clock): void {
  const done = new AbortController();
  const finish = () => done.abort();
  socket.once("secureConnect", finish).once("close", finish);
  clock.sleep(timeoutMs, done.signal).then(
    () => socket.destroy(new Error(`no TLS handshake within ${timeoutMs / 1000} s`)),
    () => {},
  );
}
