import type { X509Certificate } from "node:crypto";
import type { Http2Session } from "node:http2";
import { TLSSocket } from "node:tls";
import type { TrustDomain } from "../identity/spiffe-id.ts";
import { type LeafVerdict, verifyLeaf } from "./leaf.ts";

export type IdentifiedPeer = {
  readonly verdict: LeafVerdict;
  /** Always there when the verdict is good. */
  readonly leaf?: X509Certificate;
};

/**
 * Who is at the other end of a session, once node:tls has verified its chain to our bundle. It takes more than
 * `socket.authorized`, which is also true for a resumed session whose certificate has expired since, or that never
 * had one.
 */
export function identifyPeer(session: Http2Session, trustDomain: TrustDomain, now: number): IdentifiedPeer {
  const { socket } = session;
  if (!(socket instanceof TLSSocket) || !socket.authorized) return nobody("it is not verified");
  if (socket.isSessionReused()) return nobody("its TLS session is a resumed one");
  const leaf = socket.getPeerX509Certificate();
  if (leaf === undefined) return nobody("it has no certificate");
  return { verdict: verifyLeaf(leaf, trustDomain, now), leaf };
}

function nobody(reason: string): IdentifiedPeer {
  return { verdict: { ok: false, reason } };
}
