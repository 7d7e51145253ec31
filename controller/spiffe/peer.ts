import type { Http2Session } from "node:http2";
import { TLSSocket } from "node:tls";
import type { TrustDomain } from "../identity/spiffe-id.ts";
import { type LeafVerdict, verifyLeaf } from "./leaf.ts";

/**
 * Who is at the other end of a session, once node:tls has verified its chain to our bundle. It takes more than
 * `socket.authorized`, which is also true for a resumed session whose certificate has expired since, or that never
 * had one.
 */
export function identifyPeer(session: Http2Session, trustDomain: TrustDomain, now: number): LeafVerdict {
  const { socket } = session;
  if (!(socket instanceof TLSSocket) || !socket.authorized)
    return { ok: false, reason: "it is not verified" };
  if (socket.isSessionReused()) return { ok: false, reason: "its TLS session is a resumed one" };
  const certificate = socket.getPeerX509Certificate();
  if (certificate === undefined) return { ok: false, reason: "it has no certificate" };
  return verifyLeaf(certificate, trustDomain, now);
}
