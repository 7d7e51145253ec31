import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from "node:crypto";
import { chmod, mkdir, readFile, rename, writeFile } from "node:fs/promises";
import path from "node:path";
import { z } from "zod";
import type { TrustDomain } from "../../controller/identity/spiffe-id.ts";
import { createCaCertificate } from "./certificates.ts";

/** Who signs for the trust domain. */
export type Authority = {
  readonly trustDomain: TrustDomain;
  readonly caCertificatePem: string;
  readonly caKey: KeyObject;
  readonly jwtKey: KeyObject;
};

const fileSchema = z.strictObject({
  trustDomain: z.string(),
  caCertificate: z.string(),
  caKey: z.string(),
  jwtKey: z.string(),
});

/**
 * The authority that is kept in the folder, made there at the first start, so that a restart keeps the trust.
 * Beside it lie, for relying parties, `bundle.pem` and `jwks.json`. Rejects if the folder holds the authority of
 * another trust domain.
 */
export async function openAuthority(
  folder: string,
  trustDomain: TrustDomain,
  now: number,
): Promise<Authority> {
  await mkdir(folder, { recursive: true, mode: 0o711 });
  const file = path.join(folder, "authority.json");
  const authority =
    (await readAuthority(file, trustDomain)) ?? (await createAuthority(file, trustDomain, now));
  await writePublic(path.join(folder, "bundle.pem"), authority.caCertificatePem);
  await writePublic(path.join(folder, "jwks.json"), JSON.stringify({ keys: [publicJwk(authority.jwtKey)] }));
  return authority;
}

/** The public half of the key that signs JWT-SVIDs, as it stands in the key set. */
export function publicJwk(jwtKey: KeyObject) {
  const jwk = createPublicKey(jwtKey).export({ format: "jwk" });
  return { ...jwk, kid: `${jwk.x}`.slice(0, 16), alg: "ES256", use: "jwt-svid" };
}

async function readAuthority(file: string, trustDomain: TrustDomain): Promise<Authority | undefined> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  const kept = fileSchema.parse(JSON.parse(text));
  if (kept.trustDomain !== trustDomain) {
    throw new Error(`${file} is of the trust domain ${kept.trustDomain}: use another folder, or remove it`);
  }
  await chmod(file, 0o600);
  return {
    trustDomain,
    caCertificatePem: kept.caCertificate,
    caKey: createPrivateKey(kept.caKey),
    jwtKey: createPrivateKey(kept.jwtKey),
  };
}

async function createAuthority(file: string, trustDomain: TrustDomain, now: number): Promise<Authority> {
  const [ca, jwt] = [newKey(), newKey()];
  const caCertificatePem = await createCaCertificate(trustDomain, ca, now);
  const text = JSON.stringify({
    trustDomain,
    caCertificate: caCertificatePem,
    caKey: pem(ca.privateKey),
    jwtKey: pem(jwt.privateKey),
  });
  await writeFile(`${file}.new`, text, { mode: 0o600 });
  await rename(`${file}.new`, file);
  return { trustDomain, caCertificatePem, caKey: ca.privateKey, jwtKey: jwt.privateKey };
}

function newKey() {
  return generateKeyPairSync("ec", { namedCurve: "P-256" });
}

function pem(key: KeyObject): string {
  return key.export({ type: "pkcs8", format: "pem" }).toString();
}

async function writePublic(file: string, text: string): Promise<void> {
  await writeFile(`${file}.new`, text, { mode: 0o644 });
  await rename(`${file}.new`, file);
}
