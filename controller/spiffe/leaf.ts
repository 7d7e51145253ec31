import type { X509Certificate } from "node:crypto";
import { describeError } from "../platform/errors.ts";
import {
  parseSpiffeId,
  pathOf,
  type SpiffeId,
  type TrustDomain,
  trustDomainOf,
} from "../identity/spiffe-id.ts";
import { DerError } from "./der.ts";
import { type CertificateConstraints, constraintsOf } from "./certificate-constraints.ts";

/** Whether a certificate is a good X.509-SVID; `notAfter` in milliseconds since the epoch. */
export type LeafVerdict =
  | { readonly ok: true; readonly id: SpiffeId; readonly notAfter: number }
  | { readonly ok: false; readonly reason: string };

const clientAuth = "1.3.6.1.5.5.7.3.2";
const serverAuth = "1.3.6.1.5.5.7.3.1";

/**
 * Judges a leaf by the X.509-SVID specification, sections 2 to 5, and tells its ID. The chain to the bundle of
 * that trust domain is node:tls's part; it knows nothing of the rules here and takes, for example, a CA
 * certificate or one with two IDs. Whether the ID may do anything is for the caller to decide.
 */
export function verifyLeaf(certificate: X509Certificate, trustDomain: TrustDomain, now: number): LeafVerdict {
  const notAfter = certificate.validToDate.getTime();
  if (now < certificate.validFromDate.getTime()) {
    return refused(`it is valid only from ${certificate.validFromDate.toISOString()} on`);
  }
  if (now >= notAfter) return refused(`it expired at ${certificate.validToDate.toISOString()}`);
  const usage = usageFault(certificate);
  if (usage !== undefined) return refused(usage);
  const uris = uriNames(certificate.subjectAltName);
  const [uri] = uris;
  if (uri === undefined || uris.length !== 1)
    return refused(`it has ${uris.length} URI names, an SVID has one`);
  let id: SpiffeId;
  try {
    id = parseSpiffeId(uri);
  } catch (error) {
    return refused(describeError(error));
  }
  if (pathOf(id) === "") return refused(`${id} is the ID of a trust domain, not of a workload`);
  if (trustDomainOf(id) !== trustDomain) return refused(`${id} is not of the trust domain ${trustDomain}`);
  return { ok: true, id, notAfter };
}

function usageFault(certificate: X509Certificate): string | undefined {
  let constraints: CertificateConstraints;
  try {
    constraints = constraintsOf(certificate.raw);
  } catch (error) {
    if (error instanceof DerError) return `its extensions cannot be read: ${error.message}`;
    throw error;
  }
  if (constraints.ca) return "it is the certificate of a CA";
  const usage = constraints.keyUsage;
  if (usage === undefined) return "it has no KeyUsage";
  if (!usage.critical) return "its KeyUsage is not critical";
  if (!usage.digitalSignature) return "its KeyUsage lacks digitalSignature";
  if (usage.keyCertSign || usage.crlSign)
    return "its KeyUsage allows to sign certificates or revocation lists";
  // Not the bits above: this is what node:crypto calls the extended key usage. Without one, all is allowed.
  const extended: readonly string[] | undefined = certificate.keyUsage;
  if (extended !== undefined && !(extended.includes(clientAuth) && extended.includes(serverAuth))) {
    return "its extended key usage lacks serverAuth or clientAuth";
  }
  return undefined;
}

/**
 * The URI names in node:crypto's text of the subject alternative names. Splitting is safe since the fix of
 * CVE-2021-44532: a value with a comma, a quote or anything unusual is a JSON string there, with its commas
 * escaped. Such a value stays as it is, in quotes, and is no SPIFFE ID. Searching instead of splitting would not
 * be safe: a DNS name `URI:spiffe://…` prints as `DNS:URI:spiffe://…`.
 */
function uriNames(subjectAltName: string | undefined): readonly string[] {
  const names = subjectAltName?.split(", ") ?? [];
  return names.filter((name) => name.startsWith("URI:")).map((name) => name.slice("URI:".length));
}

function refused(reason: string): LeafVerdict {
  return { ok: false, reason };
}
