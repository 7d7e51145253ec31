import assert from "node:assert/strict";
import { createPublicKey, verify, X509Certificate } from "node:crypto";
import { chmod, mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, it } from "mocha";
import { parseSpiffeId, parseTrustDomain } from "../../../controller/identity/spiffe-id.ts";
import { verifyLeaf } from "../../../controller/spiffe/leaf.ts";
import { openAuthority } from "../../../scripts/workload-api/authority.ts";
import { issueX509Svid } from "../../../scripts/workload-api/certificates.ts";
import { issueJwtSvid } from "../../../scripts/workload-api/jwt.ts";

const td = parseTrustDomain("example.org");
const id = parseSpiffeId("spiffe://example.org/ci/owner/repo/build");
const now = Math.floor(Date.now() / 1000) * 1000;
const hourMs = 3_600_000;

describe("authority of the development Workload API", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), "authority-"));
  });
  afterEach(() => rm(folder, { recursive: true }));

  it("is the same after a restart, for certificates and tokens", async () => {
    const first = await openAuthority(folder, td, now);
    const second = await openAuthority(folder, td, now + hourMs);
    assert.equal(second.caCertificatePem, first.caCertificatePem);
    assert.ok(second.caKey.equals(first.caKey));
    assert.ok(second.jwtKey.equals(first.jwtKey));
  });

  it("keeps its keys where only its own user can read them", async () => {
    const mode = async () => (await stat(path.join(folder, "authority.json"))).mode & 0o777;
    await openAuthority(folder, td, now);
    assert.equal(await mode(), 0o600);
    await chmod(path.join(folder, "authority.json"), 0o644);
    await openAuthority(folder, td, now);
    assert.equal(await mode(), 0o600);
  });

  it("refuses a folder of another trust domain", async () => {
    await openAuthority(folder, td, now);
    await assert.rejects(
      openAuthority(folder, parseTrustDomain("example.com"), now),
      /is of the trust domain example\.org: use another folder, or remove it/,
    );
  });

  it("issues leaves like SPIRE's, which lead to the CA in bundle.pem", async () => {
    const authority = await openAuthority(folder, td, now);
    const { certificateDer, keyDer } = await issueX509Svid(authority, id, hourMs, now);
    const leaf = new X509Certificate(certificateDer);
    const ca = new X509Certificate(await readFile(path.join(folder, "bundle.pem")));
    assert.deepEqual(verifyLeaf(leaf, td, now), { ok: true, id, notAfter: now + hourMs });
    assert.equal(leaf.validFromDate.getTime(), now - 10_000);
    assert.deepEqual(leaf.keyUsage.toSorted(), ["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"]);
    assert.ok(leaf.checkIssued(ca) && leaf.verify(ca.publicKey));
    assert.notEqual(leaf.subject, ca.subject);
    assert.ok(ca.ca && ca.subjectAltName === "URI:spiffe://example.org");
    assert.notDeepEqual((await issueX509Svid(authority, id, hourMs, now)).keyDer, keyDer);
  });

  it("issues no leaf that outlives the CA", async () => {
    const authority = await openAuthority(folder, td, now);
    const end = new X509Certificate(authority.caCertificatePem).validToDate.getTime();
    const { certificateDer } = await issueX509Svid(authority, id, hourMs, end - 1_000);
    assert.equal(new X509Certificate(certificateDer).validToDate.getTime(), end);
  });

  it("issues tokens that the key in jwks.json verifies", async () => {
    const token = issueJwtSvid(await openAuthority(folder, td, now), id, ["registry"], now);
    const [header = "", claims = "", signature = ""] = token.split(".");
    const { keys } = JSON.parse(await readFile(path.join(folder, "jwks.json"), "utf8"));
    const key = createPublicKey({ key: keys[0], format: "jwk" });
    const signed = Buffer.from(`${header}.${claims}`);
    const bytes = Buffer.from(signature, "base64url");
    assert.ok(verify("sha256", signed, { key, dsaEncoding: "ieee-p1363" }, bytes));
    const decoded = (part: string) => JSON.parse(Buffer.from(part, "base64url").toString());
    assert.deepEqual(decoded(header), { alg: "ES256", kid: keys[0].kid, typ: "JWT" });
    const issuedAt = now / 1000;
    assert.deepEqual(decoded(claims), { sub: id, aud: ["registry"], iat: issuedAt, exp: issuedAt + 300 });
  });
});
