import { createPrivateKey, X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";
import type { X509SVIDResponse } from "../../proto/gen/spiffe/workload_pb.ts";
import { type SpiffeId, trustDomainOf } from "../identity/spiffe-id.ts";
import { describeError } from "../platform/errors.ts";
import { certificatePem, splitCertificates } from "./der.ts";
import { verifyLeaf } from "./leaf.ts";
import { secureContextOptions } from "./secure-context.ts";

/** Our own X.509-SVID at one time, ready for node:tls. Times in milliseconds since the epoch. */
export type X509Svid = {
  readonly id: SpiffeId;
  /** The whole chain, leaf first: peers know the root only. */
  readonly certificatePem: string;
  readonly keyPem: string;
  /** The CAs of our own trust domain; several while a CA is being replaced. */
  readonly bundlePem: readonly string[];
  readonly notBefore: number;
  /** When the first certificate of the chain expires. */
  readonly notAfter: number;
};

export type X509SvidVerdict =
  | { readonly ok: true; readonly svid: X509Svid }
  | {
      readonly ok: false;
      readonly reason: string;
      /** It is not valid yet, and may be good later just as it is. */
      readonly early: boolean;
    };

/**
 * Takes the SVID with exactly this ID out of a message of the Workload API, or says why it cannot be used. The
 * order of the SVIDs in a message means nothing (SPIRE sorts by a random number), so none is the default one.
 */
export function readX509Svid(message: X509SVIDResponse, expectedId: SpiffeId, now: number): X509SvidVerdict {
  const found = message.svids.find(({ spiffeId }) => spiffeId === expectedId);
  if (found === undefined) {
    const others = message.svids.map(({ spiffeId }) => JSON.stringify(spiffeId)).join(", ");
    return refused(`the Workload API gave ${others === "" ? "no SVID" : `other SVIDs only: ${others}`}`);
  }
  try {
    return usable(readChain(found.x509Svid), found.x509SvidKey, found.bundle, expectedId, now);
  } catch (error) {
    return refused(`the SVID cannot be read: ${describeError(error)}`);
  }
}

type Chain = { readonly leaf: X509Certificate; readonly certificates: readonly X509Certificate[] };

function readChain(bytes: Uint8Array): Chain {
  const certificates = readCertificates(bytes);
  const [leaf] = certificates;
  if (leaf === undefined) throw new Error("it has no certificate");
  return { leaf, certificates };
}

function usable(
  { leaf, certificates }: Chain,
  keyDer: Uint8Array,
  bundleDer: Uint8Array,
  expectedId: SpiffeId,
  now: number,
): X509SvidVerdict {
  const verdict = verifyLeaf(leaf, trustDomainOf(expectedId), now);
  if (!verdict.ok) {
    const early = now < leaf.validFromDate.getTime();
    return { ...refused(`the certificate is no good SVID: ${verdict.reason}`), early };
  }
  if (verdict.id !== expectedId) return refused(`the certificate is of ${verdict.id}`);
  const bundle = readCertificates(bundleDer);
  if (bundle.length === 0) return refused("the bundle of the trust domain is empty");
  const key = createPrivateKey({ key: Buffer.from(keyDer), format: "der", type: "pkcs8" });
  if (!leaf.checkPrivateKey(key)) return refused("the key is not the key of the certificate");
  const svid: X509Svid = {
    id: expectedId,
    certificatePem: certificates.map(({ raw }) => certificatePem(raw)).join(""),
    keyPem: key.export({ type: "pkcs8", format: "pem" }).toString(),
    bundlePem: bundle.map(({ raw }) => certificatePem(raw)),
    notBefore: leaf.validFromDate.getTime(),
    notAfter: Math.min(...certificates.map(({ validToDate }) => validToDate.getTime())),
  };
  // OpenSSL has rules of its own (too weak a key, for one); better here than while a server rotates.
  createSecureContext(secureContextOptions(svid));
  return { ok: true, svid };
}

function readCertificates(bytes: Uint8Array): readonly X509Certificate[] {
  return splitCertificates(bytes).map((der) => new X509Certificate(der));
}

function refused(reason: string) {
  return { ok: false, reason, early: false } as const;
}
