import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { before, describe, it } from "mocha";
import { parseTrustDomain } from "../../../controller/identity/spiffe-id.ts";
import { verifyLeaf } from "../../../controller/spiffe/leaf.ts";
import { createTestCa, issueLeaf, type LeafOptions, type TestCa } from "../../support/test-pki.ts";

const td = parseTrustDomain("example.org");
const id = "spiffe://example.org/ci/owner/repo/build";
const now = Date.parse("2026-01-01T00:00:00Z");

describe("leaf of an X.509-SVID", () => {
  let ca: TestCa;
  before(async () => {
    ca = await createTestCa();
  });
  const verdict = async (options: LeafOptions) => {
    const times = { notBefore: now - 10_000, notAfter: now + 60_000 };
    return verifyLeaf((await issueLeaf(ca, id, { ...times, ...options })).certificate, td, now);
  };

  const good: readonly (readonly [string, LeafOptions])[] = [
    ["as SPIRE makes it", { keyUsage: ["digitalSignature", "keyEncipherment", "keyAgreement"] }],
    ["without extended key usage", { extendedKeyUsage: null }],
    ["with DNS names beside the ID", { dnsNames: ["a.example.org", "b.example.org"] }],
    ["with an empty subject", { subject: "" }],
    ["with a DNS name that looks like another ID", { dnsNames: ["URI:spiffe://example.org/other"] }],
  ];
  for (const [what, options] of good) {
    it(`is good ${what}`, async () => {
      assert.deepEqual(await verdict(options), { ok: true, id, notAfter: now + 60_000 });
    });
  }

  const bad: readonly (readonly [string, LeafOptions, RegExp])[] = [
    ["of a CA", { ca: true, keyUsage: ["digitalSignature", "keyCertSign"] }, /certificate of a CA/],
    ["of a CA without keyCertSign, which node:crypto does not call one", { ca: true }, /certificate of a CA/],
    ["without any name", { uris: [] }, /0 URI names/],
    ["with DNS names only", { uris: [], dnsNames: ["a.example.org"] }, /0 URI names/],
    ["with two IDs", { uris: [id, "spiffe://example.org/other"] }, /2 URI names/],
    ["with the same ID twice", { uris: [id, id] }, /2 URI names/],
    ["with an ID and a web address", { uris: [id, "https://example.org/"] }, /2 URI names/],
    ["with a web address only", { uris: ["https://example.org/"] }, /does not start with spiffe/],
    [
      "of another trust domain",
      { uris: ["spiffe://example.com/ci/owner/repo/build"] },
      /not of the trust domain/,
    ],
    ["with the ID of a trust domain", { uris: ["spiffe://example.org"] }, /ID of a trust domain/],
    ["with a root path", { uris: ["spiffe://example.org/"] }, /must not end in/],
    ["with a path that a URL parser changes", { uris: [`${id}/../other`] }, /segment \. or \.\./],
    [
      "with one name that reads like two",
      { uris: ["spiffe://example.org/a, URI:spiffe://example.org/b"] },
      /does not start with spiffe/,
    ],
    ["with a quote in the ID", { uris: ['spiffe://example.org/a"'] }, /is not a SPIFFE ID/],
    [
      "with a DNS name that reads like an ID after a comma",
      { uris: [], dnsNames: ["x, URI:spiffe://example.org/b"] },
      /0 URI names/,
    ],
    ["without KeyUsage", { keyUsage: null }, /no KeyUsage/],
    ["whose KeyUsage is not critical", { keyUsageCritical: false }, /not critical/],
    ["without digitalSignature", { keyUsage: ["keyEncipherment"] }, /lacks digitalSignature/],
    ["that may sign certificates", { keyUsage: ["digitalSignature", "keyCertSign"] }, /allows to sign/],
    ["that may sign revocation lists", { keyUsage: ["digitalSignature", "cRLSign"] }, /allows to sign/],
    ["for servers only", { extendedKeyUsage: ["serverAuth"] }, /extended key usage/],
    ["for clients only", { extendedKeyUsage: ["clientAuth"] }, /extended key usage/],
    ["that is valid later", { notBefore: now + 5_000 }, /valid only from/],
    ["that has expired", { notBefore: now - 60_000, notAfter: now - 5_000 }, /expired at/],
  ];
  for (const [what, options, reason] of bad) {
    it(`is refused ${what}`, async () => {
      const result = await verdict(options);
      assert.equal(result.ok, false);
      assert.match(result.reason, reason);
    });
  }

  it("is refused from the very moment of its expiry on", async () => {
    const notAfter = now + 60_000;
    const { certificate } = await issueLeaf(ca, id, { notBefore: now, notAfter });
    assert.equal(verifyLeaf(certificate, td, notAfter - 1).ok, true);
    assert.equal(verifyLeaf(certificate, td, notAfter).ok, false);
  });

  it("is refused if it is the CA of the trust domain itself", () => {
    assert.equal(verifyLeaf(new X509Certificate(ca.der), td, now).ok, false);
  });
});
