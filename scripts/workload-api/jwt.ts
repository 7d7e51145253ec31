import { sign } from "node:crypto";
import type { SpiffeId } from "../../controller/identity/spiffe-id.ts";
import { type Authority, publicJwk } from "./authority.ts";

const ttlSeconds = 300;

/** A JWT-SVID for these audiences, good for five minutes (JWT-SVID specification, sections 2 and 3). */
export function issueJwtSvid(
  { jwtKey }: Authority,
  id: SpiffeId,
  audience: readonly string[],
  now: number,
): string {
  const issuedAt = Math.floor(now / 1000);
  const header = { alg: "ES256", kid: publicJwk(jwtKey).kid, typ: "JWT" };
  const claims = { sub: id, aud: audience, iat: issuedAt, exp: issuedAt + ttlSeconds };
  const text = [header, claims]
    .map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"))
    .join(".");
  // JWS wants the two numbers of the signature one after the other, not as DER.
  const signature = sign("sha256", Buffer.from(text), { key: jwtKey, dsaEncoding: "ieee-p1363" });
  return `${text}.${signature.toString("base64url")}`;
}
