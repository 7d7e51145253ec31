import assert from "node:assert/strict";
import { generateKeyPairSync, X509Certificate } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { before, describe, it } from "mocha";
import { X509SVIDResponseSchema } from "../../../proto/gen/spiffe/workload_pb.ts";
import { parseSpiffeId } from "../../../controller/identity/spiffe-id.ts";
import { readX509Svid, type X509Svid } from "../../../controller/spiffe/x509-svid.ts";
import {
  createTestCa,
  issueLeaf,
  svidMessage,
  type TestCa,
  type TestLeaf,
  type X509SvidInit,
} from "../../support/test-pki.ts";

const id = parseSpiffeId("spiffe://example.org/ci/owner/repo/build");
const otherId = "spiffe://example.org/ns/gitea-actions/sa/gitea-task-executor";

const read = (...svids: readonly X509SvidInit[]) =>
  readX509Svid(create(X509SVIDResponseSchema, { svids: [...svids] }), id, Date.now());

function good(...svids: readonly X509SvidInit[]): X509Svid {
  const verdict = read(...svids);
  assert.ok(verdict.ok, verdict.ok ? "" : verdict.reason);
  return verdict.svid;
}

describe("X.509-SVID in a message of the Workload API", () => {
  let ca: TestCa;
  let leaf: TestLeaf;
  let message: X509SvidInit;
  before(async () => {
    ca = await createTestCa();
    leaf = await issueLeaf(ca, id);
    message = svidMessage(id, leaf, ca);
  });

  it("is turned into PEM, which is all that node:tls takes", () => {
    const svid = good(message);
    assert.equal(svid.id, id);
    assert.equal(svid.certificatePem, leaf.chainPem);
    assert.match(svid.keyPem, /^-----BEGIN PRIVATE KEY-----\n/);
    assert.deepEqual(svid.bundlePem, [new X509Certificate(ca.der).toString()]);
    assert.equal(svid.notBefore, leaf.certificate.validFromDate.getTime());
    assert.equal(svid.notAfter, leaf.certificate.validToDate.getTime());
  });

  it("is picked by its ID, wherever in the message it stands", async () => {
    const other = svidMessage(otherId, await issueLeaf(ca, otherId), ca);
    assert.equal(good(message, other).certificatePem, leaf.chainPem);
    assert.equal(good(other, message).certificatePem, leaf.chainPem);
  });

  it("is not there if only others are, and they are named", async () => {
    const other = svidMessage(otherId, await issueLeaf(ca, otherId), ca);
    assert.deepEqual(read(other), {
      ok: false,
      early: false,
      reason: `the Workload API gave other SVIDs only: "${otherId}"`,
    });
    assert.deepEqual(read(), { ok: false, early: false, reason: "the Workload API gave no SVID" });
  });

  it("keeps the whole chain, and ends with the first certificate of it that expires", async () => {
    const intermediate = await createTestCa("example.org", ca);
    const notAfter = Math.floor(Date.now() / 1000) * 1000 + 48 * 3_600_000;
    const below = await issueLeaf(intermediate, id, { notAfter });
    const svid = good(svidMessage(id, below, ca));
    assert.equal(svid.certificatePem, below.chainPem);
    assert.equal(svid.certificatePem.split("BEGIN CERTIFICATE").length, 3);
    assert.equal(svid.notAfter, new X509Certificate(intermediate.der).validToDate.getTime());
  });

  it("keeps all CAs of the bundle", async () => {
    assert.equal(good(svidMessage(id, leaf, ca, await createTestCa())).bundlePem.length, 2);
  });

  const weakKey = generateKeyPairSync("rsa", { modulusLength: 1024 });
  const weak = weakKey.privateKey.export({ type: "pkcs8", format: "der" });
  const broken: readonly (readonly [string, () => Promise<X509SvidInit> | X509SvidInit, RegExp])[] = [
    ["has no certificate", () => ({ ...message, x509Svid: new Uint8Array() }), /has no certificate/],
    ["is garbage", () => ({ ...message, x509Svid: Buffer.from("garbage") }), /cannot be read/],
    ["is DER but no certificate", () => ({ ...message, x509Svid: Uint8Array.of(0x30, 0) }), /cannot be read/],
    ["is cut short", () => ({ ...message, x509Svid: leaf.chainDer.subarray(0, 300) }), /cannot be read/],
    ["has no key", () => ({ ...message, x509SvidKey: new Uint8Array() }), /cannot be read/],
    ["has another key", () => ({ ...message, x509SvidKey: weak }), /not the key of the certificate/],
    ["has an empty bundle", () => ({ ...message, bundle: new Uint8Array() }), /bundle .* is empty/],
    ["has garbage as bundle", () => ({ ...message, bundle: Buffer.from("garbage") }), /cannot be read/],
    [
      "is the certificate of another ID",
      async () => svidMessage(id, await issueLeaf(ca, otherId), ca),
      /the certificate is of spiffe:\/\/example\.org\/ns/,
    ],
    [
      "is of another trust domain",
      async () => svidMessage(id, await issueLeaf(ca, "spiffe://example.com/ci/owner/repo/build"), ca),
      /no good SVID: .* not of the trust domain example\.org/,
    ],
    [
      "has expired",
      async () => svidMessage(id, await issueLeaf(ca, id, { notAfter: Date.now() - 2000 }), ca),
      /no good SVID: it expired/,
    ],
  ];
  for (const [what, make, reason] of broken) {
    it(`is refused with the reason if it ${what}`, async () => {
      const verdict = read(await make());
      assert.ok(!verdict.ok);
      assert.match(verdict.reason, reason);
      assert.equal(verdict.early, false);
    });
  }

  it("is refused as early if it is not valid yet", async () => {
    const verdict = read(svidMessage(id, await issueLeaf(ca, id, { notBefore: Date.now() + 30_000 }), ca));
    assert.ok(!verdict.ok);
    assert.match(verdict.reason, /no good SVID: it is valid only from .* on/);
    assert.equal(verdict.early, true);
  });
});
