import type { SpiffeId } from "../../../controller/identity/spiffe-id.ts";
import type { SvidSource } from "../../../controller/spiffe/x509-source.ts";
import type { X509Svid } from "../../../controller/spiffe/x509-svid.ts";
import type { TestCa, TestLeaf } from "../../support/test-pki.ts";

/** A source whose SVID the test sets. */
export type SettableSource = SvidSource & { set(svid: X509Svid): void };

export function createSettableSource(first: X509Svid): SettableSource {
  const listeners = new Set<(svid: X509Svid) => void>();
  let svid = first;
  return {
    current: () => svid,
    onUpdate: (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    set: (next) => {
      svid = next;
      for (const listener of listeners) listener(next);
    },
  };
}

/** The leaf as our own SVID, without any of the checks that a source makes. */
export function asSvid(id: SpiffeId, leaf: TestLeaf, ...bundle: readonly TestCa[]): X509Svid {
  return {
    id,
    certificatePem: leaf.chainPem,
    keyPem: leaf.keyPem,
    bundlePem: bundle.map(({ pem }) => pem),
    notBefore: leaf.certificate.validFromDate.getTime(),
    notAfter: leaf.certificate.validToDate.getTime(),
  };
}
