import "reflect-metadata";
import { generateKeyPairSync, type KeyObject, randomBytes } from "node:crypto";
import * as x509 from "@peculiar/x509";
import type { SpiffeId, TrustDomain } from "../../controller/identity/spiffe-id.ts";

type KeyPair = { readonly publicKey: KeyObject; readonly privateKey: KeyObject };

type Ca = { readonly caCertificatePem: string; readonly caKey: KeyObject };

/** As the Workload API sends it. */
export type IssuedSvid = {
  readonly certificateDer: Uint8Array;
  /** PKCS#8. */
  readonly keyDer: Uint8Array;
};

const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;
// The subjects of CA and leaf must differ, or OpenSSL takes the leaf for a self-signed certificate.
const caSubject = "O=Development Workload API, OU=CA";
const leafSubject = "O=Development Workload API";
/** For clocks that differ; SPIRE gives the same. */
const notBeforeCushionMs = 10_000;
const caTtlMs = 10 * 365 * 86_400_000;
const { serverAuth, clientAuth } = x509.ExtendedKeyUsage;
const { digitalSignature, keyCertSign } = x509.KeyUsageFlags;

/** The self-signed certificate of a trust domain's CA, as PEM. */
export async function createCaCertificate(
  trustDomain: TrustDomain,
  { publicKey, privateKey }: KeyPair,
  now: number,
): Promise<string> {
  const key = webKey(publicKey);
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: serialNumber(),
    subject: caSubject,
    issuer: caSubject,
    notBefore: new Date(now - notBeforeCushionMs),
    notAfter: new Date(now + caTtlMs),
    publicKey: key,
    signingKey: webKey(privateKey),
    signingAlgorithm: algorithm,
    extensions: [
      new x509.BasicConstraintsExtension(true, undefined, true),
      new x509.KeyUsagesExtension(keyCertSign, true),
      new x509.SubjectAlternativeNameExtension([{ type: "url", value: `spiffe://${trustDomain}` }]),
      await x509.SubjectKeyIdentifierExtension.create(key),
    ],
  });
  return `${certificate.toString("pem")}\n`;
}

/** A fresh key and its X.509-SVID, like SPIRE's; its end is never after the CA's. */
export async function issueX509Svid(
  { caCertificatePem, caKey }: Ca,
  id: SpiffeId,
  ttlMs: number,
  now: number,
): Promise<IssuedSvid> {
  const ca = new x509.X509Certificate(caCertificatePem);
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: serialNumber(),
    subject: leafSubject,
    issuer: ca.subject,
    notBefore: new Date(now - notBeforeCushionMs),
    notAfter: new Date(Math.min(now + ttlMs, ca.notAfter.getTime())),
    publicKey: webKey(publicKey),
    signingKey: webKey(caKey),
    signingAlgorithm: algorithm,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([serverAuth, clientAuth]),
      new x509.SubjectAlternativeNameExtension([{ type: "url", value: id }]),
      await x509.AuthorityKeyIdentifierExtension.create(ca),
    ],
  });
  return {
    certificateDer: new Uint8Array(certificate.rawData),
    keyDer: privateKey.export({ type: "pkcs8", format: "der" }),
  };
}

function webKey(key: KeyObject) {
  return key.toCryptoKey(algorithm, true, [key.type === "private" ? "sign" : "verify"]);
}

/** Positive, as RFC 5280 asks. */
function serialNumber(): string {
  return `01${randomBytes(15).toString("hex")}`;
}
