/** Why somebody got no service, or lost it: a closed set, for counting. */
export const peerRefusals = [
  // Hung up before saying a word of TLS, as a port probe does.
  "probe",
  "handshake",
  "no-certificate",
  // No chain to the bundle of our trust domain, or not any more.
  "untrusted",
  "expired",
  "not-yet-valid",
  // The chain is good, but the certificate is no X.509-SVID of a workload of ours.
  "no-svid",
  "too-many",
  "too-slow",
  // Broke HTTP/2 or its limits so often that the session was ended.
  "flood",
] as const;
export type PeerRefusal = (typeof peerRefusals)[number];

export type RefusedPeer = {
  readonly kind: PeerRefusal;
  /** An OpenSSL code such as CERT_HAS_EXPIRED, or a sentence. */
  readonly reason: string;
  readonly remoteAddress: string | undefined;
  /** As far as it is proved. */
  readonly spiffeId?: string;
};

const kinds: Readonly<Record<string, PeerRefusal>> = {
  CERT_HAS_EXPIRED: "expired",
  CERT_NOT_YET_VALID: "not-yet-valid",
  ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE: "no-certificate",
  INVALID_PURPOSE: "no-svid",
  SELF_SIGNED_CERT_IN_CHAIN: "untrusted",
  DEPTH_ZERO_SELF_SIGNED_CERT: "untrusted",
  UNABLE_TO_GET_ISSUER_CERT: "untrusted",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: "untrusted",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "untrusted",
  CERT_SIGNATURE_FAILURE: "untrusted",
  INVALID_CA: "untrusted",
};

/** The kind of a handshake that failed with this code of OpenSSL or Node, after so many bytes from the peer. */
export function handshakeRefusal(code: string, bytesRead: number): PeerRefusal {
  return kinds[code] ?? (bytesRead === 0 ? "probe" : "handshake");
}
