import "reflect-metadata";
import { createPrivateKey, randomBytes, X509Certificate, webcrypto } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import * as x509 from "@peculiar/x509";
import type { X509SVIDSchema } from "../../proto/gen/spiffe/workload_pb.ts";

const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;
const minuteMs = 60_000;

export type KeyUsageName = keyof typeof x509.KeyUsageFlags;
export type ExtendedKeyUsageName = keyof typeof x509.ExtendedKeyUsage;

export type TestCa = {
  readonly subject: string;
  readonly der: Uint8Array;
  readonly pem: string;
  readonly privateKey: webcrypto.CryptoKey;
  /** The certificates that a leaf of this CA has to send with it. */
  readonly intermediates: readonly Uint8Array[];
};

export type TestLeaf = {
  readonly certificate: X509Certificate;
  /** Leaf and intermediates, one after the other. */
  readonly chainDer: Uint8Array;
  readonly chainPem: string;
  /** PKCS#8. */
  readonly keyDer: Uint8Array;
  readonly keyPem: string;
};

export type X509SvidInit = MessageInitShape<typeof X509SVIDSchema>;

export type LeafOptions = {
  readonly uris?: readonly string[];
  readonly dnsNames?: readonly string[];
  readonly addresses?: readonly string[];
  readonly subject?: string;
  readonly ca?: boolean;
  readonly notBefore?: number;
  readonly notAfter?: number;
  /** Null for no such extension. */
  readonly keyUsage?: readonly KeyUsageName[] | null;
  readonly keyUsageCritical?: boolean;
  /** Null for no such extension. */
  readonly extendedKeyUsage?: readonly ExtendedKeyUsageName[] | null;
};

let caNumber = 0;

/** A CA of its own, or below `parent` an intermediate one. */
export async function createTestCa(trustDomain = "example.org", parent?: TestCa): Promise<TestCa> {
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const subject = `O=Test CA, CN=${trustDomain} ${++caNumber}`;
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: serial(),
    subject,
    issuer: parent?.subject ?? subject,
    notBefore: new Date(Date.now() - 60 * minuteMs),
    notAfter: new Date(Date.now() + 24 * 60 * minuteMs),
    publicKey: keys.publicKey,
    signingKey: parent?.privateKey ?? keys.privateKey,
    signingAlgorithm: algorithm,
    extensions: [
      new x509.BasicConstraintsExtension(true, undefined, true),
      keyUsages(["keyCertSign", "cRLSign"], true),
      new x509.SubjectAlternativeNameExtension([{ type: "url", value: `spiffe://${trustDomain}` }]),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  const der = new Uint8Array(certificate.rawData);
  return {
    subject,
    der,
    pem: `${certificate.toString("pem")}\n`,
    privateKey: keys.privateKey,
    intermediates: parent === undefined ? [] : [der, ...parent.intermediates],
  };
}

/** A CA that somebody else has made, by its certificate and its P-256 key in PKCS#8, both as PEM. */
export async function openTestCa(certificatePem: string, keyPem: string): Promise<TestCa> {
  const certificate = new x509.X509Certificate(certificatePem);
  const key = createPrivateKey(keyPem).export({ type: "pkcs8", format: "der" });
  return {
    subject: certificate.subject,
    der: new Uint8Array(certificate.rawData),
    pem: certificatePem,
    privateKey: await webcrypto.subtle.importKey("pkcs8", key, algorithm, true, ["sign"]),
    intermediates: [],
  };
}

/** A leaf as SPIRE makes them, except for what the options change. */
export async function issueLeaf(ca: TestCa, id: string, options: LeafOptions = {}): Promise<TestLeaf> {
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const { uris = [id], dnsNames = [], addresses = [], keyUsage = ["digitalSignature"] } = options;
  const { extendedKeyUsage = ["serverAuth", "clientAuth"] } = options;
  const names = [
    ...uris.map((value) => ({ type: "url" as const, value })),
    ...dnsNames.map((value) => ({ type: "dns" as const, value })),
    ...addresses.map((value) => ({ type: "ip" as const, value })),
  ];
  const extensions: x509.Extension[] = [
    new x509.BasicConstraintsExtension(options.ca ?? false, undefined, true),
  ];
  if (keyUsage !== null) extensions.push(keyUsages(keyUsage, options.keyUsageCritical ?? true));
  if (extendedKeyUsage !== null) {
    const usages = extendedKeyUsage.map((usage) => x509.ExtendedKeyUsage[usage]);
    extensions.push(new x509.ExtendedKeyUsageExtension(usages));
  }
  if (names.length > 0) extensions.push(new x509.SubjectAlternativeNameExtension(names));
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: serial(),
    subject: options.subject ?? "C=US, O=SPIRE",
    issuer: ca.subject,
    notBefore: new Date(options.notBefore ?? Date.now() - 10_000),
    notAfter: new Date(options.notAfter ?? Date.now() + 60 * minuteMs),
    publicKey: keys.publicKey,
    signingKey: ca.privateKey,
    signingAlgorithm: algorithm,
    extensions,
  });
  const leafDer = new Uint8Array(certificate.rawData);
  const chain = [leafDer, ...ca.intermediates];
  const keyDer = Buffer.from(await webcrypto.subtle.exportKey("pkcs8", keys.privateKey));
  return {
    certificate: new X509Certificate(leafDer),
    chainDer: Buffer.concat(chain),
    chainPem: chain.map((der) => new X509Certificate(der).toString()).join(""),
    keyDer,
    keyPem: `-----BEGIN PRIVATE KEY-----\n${keyDer.toString("base64")}\n-----END PRIVATE KEY-----\n`,
  };
}

/** An SVID as the Workload API sends it, with the bundle of these CAs. */
export function svidMessage(id: string, leaf: TestLeaf, ...bundle: readonly TestCa[]): X509SvidInit {
  return {
    spiffeId: id,
    x509Svid: leaf.chainDer,
    x509SvidKey: leaf.keyDer,
    bundle: Buffer.concat(bundle.map(({ der }) => der)),
  };
}

function keyUsages(names: readonly KeyUsageName[], critical: boolean): x509.KeyUsagesExtension {
  const flags = names.reduce<number>((sum, name) => sum | x509.KeyUsageFlags[name], 0);
  // oxlint-disable-next-line typescript/no-unsafe-enum-assignment -- several flags together are none of the enum
  return new x509.KeyUsagesExtension(flags, critical);
}

/** Positive, as RFC 5280 asks. */
function serial(): string {
  return `01${randomBytes(15).toString("hex")}`;
}
