import { createCipheriv, createDecipheriv } from "node:crypto";
import type { KeyRing, Keys } from "./key-ring.ts";

/*
 * The form of everything secret that is kept outside: a line of JSON, a newline, then the secret in AES-256-GCM with
 * its tag at the end. The line as it stands, byte for byte, is the associated data: what is sealed, and for whom, can
 * be read by anyone and changed by nobody.
 */
const algorithm = "aes-256-gcm";
const ivBytes = 12;
const tagBytes = 16;
const newline = 0x0a;
const maxLineBytes = 16 * 1024;

/** What stands in the line, and the bytes that it was read from. */
export type ReadLine = {
  readonly value: unknown;
  readonly line: Uint8Array;
  readonly sealed: Uint8Array;
};

/** What `sealLine` adds to the line: the name of the key, and the initialisation vector in base64. */
export type SealedWith = { readonly key: string; readonly iv: string };

export type OpenedLine =
  | { readonly kind: "opened"; readonly secret: Uint8Array }
  /** The ring does not hold the key (yet): it may be opened later. */
  | { readonly kind: "unknown-key" }
  | { readonly kind: "changed" };

/** Seals a secret with the first key of the ring; `randomBytes` gives the initialisation vector. */
export function sealLine(
  ring: KeyRing,
  header: Readonly<Record<string, unknown>>,
  secret: Uint8Array,
  randomBytes: (size: number) => Uint8Array,
): Uint8Array {
  const [keys] = ring;
  const iv = randomBytes(ivBytes);
  const sealedWith: SealedWith = { key: keys.id, iv: Buffer.from(iv).toString("base64") };
  const line = Buffer.from(JSON.stringify({ ...header, ...sealedWith }));
  const cipher = createCipheriv(algorithm, keys.payload, iv, { authTagLength: tagBytes });
  cipher.setAAD(line);
  const encrypted = [cipher.update(secret), cipher.final()];
  return Buffer.concat([line, Buffer.of(newline), ...encrypted, cipher.getAuthTag()]);
}

/** Reads the line, believing nothing of it yet; undefined if the bytes do not begin with a line of JSON. */
export function readLine(bytes: Uint8Array): ReadLine | undefined {
  const end = bytes.subarray(0, maxLineBytes).indexOf(newline);
  if (end === -1) return undefined;
  const line = bytes.subarray(0, end);
  try {
    return {
      value: JSON.parse(Buffer.from(line).toString("utf8")),
      line,
      sealed: bytes.subarray(end + 1),
    };
  } catch {
    return undefined;
  }
}

/** Opens what `sealLine` made. It never throws. */
export function openLine(
  ring: KeyRing,
  { line, sealed }: Pick<ReadLine, "line" | "sealed">,
  { key, iv }: SealedWith,
): OpenedLine {
  const candidates = ring.filter((keys) => keys.id === key);
  if (candidates.length === 0) return { kind: "unknown-key" };
  for (const keys of candidates) {
    const secret = decrypt(keys, Buffer.from(iv, "base64"), line, sealed);
    if (secret !== undefined) return { kind: "opened", secret };
  }
  return { kind: "changed" };
}

function decrypt(keys: Keys, iv: Uint8Array, line: Uint8Array, sealed: Uint8Array): Uint8Array | undefined {
  if (sealed.length < tagBytes || iv.length !== ivBytes) return undefined;
  const decipher = createDecipheriv(algorithm, keys.payload, iv, { authTagLength: tagBytes });
  decipher.setAAD(line);
  decipher.setAuthTag(sealed.subarray(-tagBytes));
  try {
    return Buffer.concat([decipher.update(sealed.subarray(0, -tagBytes)), decipher.final()]);
  } catch {
    return undefined;
  }
}
