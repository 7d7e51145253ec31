import { createHmac, timingSafeEqual } from "node:crypto";
import type { KeyRing, Keys } from "./key-ring.ts";

/** One try to run an assignment. The nonce tells apart two tries of the same number after a lost record. */
export type Attempt = {
  /** From 1. */
  readonly number: number;
  /** 32 hexadecimal digits. */
  readonly nonce: string;
};

export type CapabilityClaims = {
  readonly assignmentId: string;
  readonly spiffeId: string;
  readonly attempt: Attempt;
};

/**
 * The fencing token of one attempt: `<attempt>.<nonce>.<HMAC-SHA256>`. The SVID says which job calls, this says
 * which attempt of it; it opens nothing without the SVID, and is the same after a restart.
 */
export function signCapability(ring: KeyRing, claims: CapabilityClaims): string {
  return `${claims.attempt.number}.${claims.attempt.nonce}.${mac(ring[0], claims)}`;
}

/**
 * The attempt that a capability was signed for, by any key of the ring, for this assignment and SPIFFE ID;
 * undefined if no key verifies it. Whether that attempt is the current one, the record knows.
 */
export function verifyCapability(
  ring: KeyRing,
  text: string,
  subject: { readonly assignmentId: string; readonly spiffeId: string },
): Attempt | undefined {
  const match = /^([1-9][0-9]{0,8})\.([0-9a-f]{32})\.([A-Za-z0-9_-]{43})$/.exec(text);
  const [, number, nonce, signature] = match ?? [];
  if (number === undefined || nonce === undefined || signature === undefined) return undefined;
  const attempt = { number: Number(number), nonce };
  // Compared as text: the last character has two bits that decoding ignores.
  const given = Buffer.from(signature);
  const holds = ring.some((keys) => timingSafeEqual(Buffer.from(mac(keys, { ...subject, attempt })), given));
  return holds ? attempt : undefined;
}

/** The fields stand behind their lengths, so that no two sets of claims read the same. */
function mac(keys: Keys, claims: CapabilityClaims): string {
  const hmac = createHmac("sha256", keys.capability);
  const { assignmentId, spiffeId, attempt } = claims;
  for (const field of [assignmentId, String(attempt.number), attempt.nonce, spiffeId]) {
    hmac.update(`${Buffer.byteLength(field)}:${field}`);
  }
  return hmac.digest("base64url");
}
