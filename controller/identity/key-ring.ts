import { hkdfSync } from "node:crypto";

/** The keys derived from one line of `CAPABILITY_KEY_FILE`. */
export type Keys = {
  /** Eight hexadecimal digits that name the line without telling it. */
  readonly id: string;
  readonly capability: Uint8Array;
  readonly payload: Uint8Array;
};

/** The first line's keys sign and encrypt, all verify and decrypt. */
export type KeyRing = readonly [Keys, ...Keys[]];

/** A line with less than this is refused: 32 characters of base64 are 192 bits. */
const minimumLength = 32;

/**
 * Reads the text of `CAPABILITY_KEY_FILE`: one secret a line, blank lines and lines that begin with `#` aside.
 * Throws an Error that names the line, never its content.
 */
export function parseKeyRing(text: string): KeyRing {
  const lines = text.split("\n").map((line, index) => ({ secret: line.trim(), number: index + 1 }));
  const [first, ...rest] = lines
    .filter(({ secret }) => secret !== "" && !secret.startsWith("#"))
    .map(({ secret, number }) => {
      if (secret.length < minimumLength)
        throw new Error(`line ${number} has fewer than ${minimumLength} characters`);
      return deriveKeys(secret);
    });
  if (first === undefined) throw new Error("it holds no key");
  return [first, ...rest];
}

function deriveKeys(secret: string): Keys {
  const derive = (purpose: string, length: number) =>
    new Uint8Array(hkdfSync("sha256", secret, "", `gitea-dynamic-runner/${purpose}`, length));
  return {
    id: Buffer.from(derive("key-id", 4)).toString("hex"),
    capability: derive("capability", 32),
    payload: derive("payload", 32),
  };
}
