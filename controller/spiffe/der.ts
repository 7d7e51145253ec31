/** The bytes are not the DER that they should be; the same bytes never will be. */
export class DerError extends Error {
  override readonly name = "DerError";
}

export type DerElement = {
  readonly tag: number;
  /** What the element holds. */
  readonly content: Uint8Array;
  /** The element with its tag and length. */
  readonly encoded: Uint8Array;
};

const sequence = 0x30;

/**
 * The elements that follow one another in the bytes; throws a DerError. Only what certificates need: one-byte
 * tags, definite lengths in their shortest form (X.690, section 10.1), nothing left over.
 */
export function readDer(bytes: Uint8Array): readonly DerElement[] {
  const elements: DerElement[] = [];
  for (let offset = 0; offset < bytes.length;) {
    const element = readElement(bytes.subarray(offset));
    elements.push(element);
    offset += element.encoded.length;
  }
  return elements;
}

/**
 * Splits certificates that are written one after the other, as the Workload API sends chains and bundles; throws
 * a DerError. Necessary because node:crypto reads the first one and silently ignores the rest.
 */
export function splitCertificates(bytes: Uint8Array): readonly Uint8Array[] {
  return readDer(bytes).map(({ tag, encoded }) => {
    if (tag !== sequence)
      throw new DerError(`a certificate starts with 0x30, not with 0x${tag.toString(16)}`);
    return encoded;
  });
}

/** One certificate as PEM: node:tls takes nothing else, and DER as `ca` leaves it trusting nobody without a word. */
export function certificatePem(der: Uint8Array): string {
  const lines =
    Buffer.from(der)
      .toString("base64")
      .match(/.{1,64}/g) ?? [];
  return ["-----BEGIN CERTIFICATE-----", ...lines, "-----END CERTIFICATE-----", ""].join("\n");
}

function readElement(bytes: Uint8Array): DerElement {
  const [tag, first] = bytes;
  if (tag === undefined || first === undefined) throw new DerError("an element is cut short");
  if ((tag & 0x1f) === 0x1f) throw new DerError("a tag has more than one byte");
  const { headerLength, length } = readLength(bytes, first);
  const end = headerLength + length;
  if (end > bytes.length) throw new DerError("an element is longer than the bytes that are there");
  return { tag, content: bytes.subarray(headerLength, end), encoded: bytes.subarray(0, end) };
}

function readLength(bytes: Uint8Array, first: number): { headerLength: number; length: number } {
  if (first < 0x80) return { headerLength: 2, length: first };
  const count = first & 0x7f;
  if (count === 0) throw new DerError("an element has an indefinite length");
  if (count > 4) throw new DerError("an element has a length of more than four bytes");
  const digits = bytes.subarray(2, 2 + count);
  if (digits.length < count) throw new DerError("an element is cut short");
  const length = digits.reduce((sum, digit) => sum * 256 + digit, 0);
  if (digits[0] === 0 || length < 0x80) throw new DerError("a length is not in its shortest form");
  return { headerLength: 2 + count, length };
}
