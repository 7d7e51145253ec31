import { X509Certificate } from "node:crypto";

/** The CAs of our trust domain at one time. */
export type Bundle = readonly X509Certificate[];

export function readBundle(pems: readonly string[]): Bundle {
  return pems.map((pem) => new X509Certificate(pem));
}

/**
 * Whether a leaf that TLS verified with one bundle is good with a later one. Below an intermediate CA that cannot be
 * told exactly, because node:tls shows a server the leaf of its peer only: then no CA may have left.
 */
export function stillTrusted(leaf: X509Certificate, verifiedWith: Bundle | undefined, now: Bundle): boolean {
  if (now.some((ca) => leaf.checkIssued(ca) && leaf.verify(ca.publicKey))) return true;
  return verifiedWith?.every((ca) => now.some(({ raw }) => raw.equals(ca.raw))) ?? false;
}
