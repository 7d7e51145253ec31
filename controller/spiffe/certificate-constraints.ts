import { DerError, type DerElement, readDer } from "./der.ts";

/** What a certificate says about its own use, as far as X.509-SVIDs care. */
export type CertificateConstraints = {
  /** Whether BasicConstraints calls it a CA. */
  readonly ca: boolean;
  readonly keyUsage?: KeyUsage;
};

export type KeyUsage = {
  readonly critical: boolean;
  readonly digitalSignature: boolean;
  readonly keyCertSign: boolean;
  readonly crlSign: boolean;
};

type Extension = { readonly critical: boolean; readonly value: Uint8Array };

const boolean = 0x01;
const bitString = 0x03;
const octetString = 0x04;
const objectIdentifier = 0x06;
const sequence = 0x30;
const versionTag = 0xa0;
const extensionsTag = 0xa3;
/** 2.5.29.15 and 2.5.29.19 (RFC 5280, sections 4.2.1.3 and 4.2.1.9). */
const keyUsageId = "551d0f";
const basicConstraintsId = "551d13";

/**
 * Reads the constraints of a DER certificate; throws a DerError. Own code because node:crypto has neither: its
 * `keyUsage` is the *extended* key usage, and its `ca` is false for a CA:TRUE certificate whose KeyUsage lacks
 * keyCertSign.
 */
export function constraintsOf(certificate: Uint8Array): CertificateConstraints {
  const extensions = extensionsOf(certificate);
  const basicConstraints = extensions.get(basicConstraintsId);
  const keyUsage = extensions.get(keyUsageId);
  return {
    ca: basicConstraints !== undefined && isCa(basicConstraints),
    ...(keyUsage !== undefined && { keyUsage: readKeyUsage(keyUsage) }),
  };
}

function isCa({ value }: Extension): boolean {
  const [first] = readDer(only(readDer(value), sequence).content);
  return first?.tag === boolean && first.content[0] !== 0;
}

function readKeyUsage({ critical, value }: Extension): KeyUsage {
  const bits = only(readDer(value), bitString).content;
  // The first byte of a BIT STRING counts its unused bits; bit 0 is the highest of the byte after it.
  const has = (bit: number) => ((bits[1 + (bit >> 3)] ?? 0) & (0x80 >> (bit & 7))) !== 0;
  return { critical, digitalSignature: has(0), keyCertSign: has(5), crlSign: has(6) };
}

function extensionsOf(certificate: Uint8Array): ReadonlyMap<string, Extension> {
  const [tbsCertificate] = readDer(only(readDer(certificate), sequence).content);
  const fields = readDer(element(tbsCertificate, sequence).content);
  const extensions = new Map<string, Extension>();
  // Extensions exist in version 3 only, and a version other than 1 is written down.
  const wrapped = fields[0]?.tag === versionTag ? fields.find(({ tag }) => tag === extensionsTag) : undefined;
  if (wrapped === undefined) return extensions;
  for (const entry of readDer(only(readDer(wrapped.content), sequence).content)) {
    const parts = readDer(element(entry, sequence).content);
    const id = Buffer.from(element(parts[0], objectIdentifier).content).toString("hex");
    if (extensions.has(id)) throw new DerError("an extension is there twice");
    const critical = parts[1]?.tag === boolean && parts[1].content[0] !== 0;
    extensions.set(id, { critical, value: element(parts.at(-1), octetString).content });
  }
  return extensions;
}

function only(elements: readonly DerElement[], tag: number): DerElement {
  if (elements.length !== 1) throw new DerError(`one element is expected, there are ${elements.length}`);
  return element(elements[0], tag);
}

function element(candidate: DerElement | undefined, tag: number): DerElement {
  if (candidate?.tag === tag) return candidate;
  const found = candidate === undefined ? "nothing" : `0x${candidate.tag.toString(16)}`;
  throw new DerError(`0x${tag.toString(16)} is expected, there is ${found}`);
}
