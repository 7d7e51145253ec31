import { constants } from "node:crypto";
import type { SecureContextOptions } from "node:tls";

type Credentials = {
  readonly certificatePem: string;
  readonly keyPem: string;
  readonly bundlePem: readonly string[];
};

/**
 * The part of the TLS settings that belongs to a secure context, always complete, because replacing a server's
 * context puts everything that is left out back to its default (`ca` to the public authorities of the web).
 * `ca` is the bundle of the SVID's own trust domain and nothing else: node:tls would let any CA in it speak for
 * any trust domain. Without tickets no session is ever resumed: a resumed one keeps its old verdict, even past
 * the end of the certificate.
 */
export function secureContextOptions(svid: Credentials): SecureContextOptions {
  return {
    cert: svid.certificatePem,
    key: svid.keyPem,
    ca: [...svid.bundlePem],
    minVersion: "TLSv1.3",
    secureOptions: constants.SSL_OP_NO_TICKET,
  };
}
