import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import {
  joinSpiffeId,
  parseSpiffeId,
  parseTrustDomain,
  pathOf,
  SpiffeIdError,
  type SpiffeIdFault,
  trustDomainOf,
} from "../../../controller/identity/spiffe-id.ts";

const td = parseTrustDomain("example.org");
const withFault = (fault: SpiffeIdFault) => (error: unknown) =>
  error instanceof SpiffeIdError && error.fault === fault;

const segment = fc.stringMatching(/^[A-Za-z0-9._-]{1,40}$/).filter((text) => text !== "." && text !== "..");
const trustDomain = fc.stringMatching(/^[a-z0-9._-]{1,60}$/);

describe("SPIFFE ID", () => {
  it("keeps the text as it is and tells trust domain and path apart", () => {
    const id = parseSpiffeId("spiffe://example.org/ci/Owner/repo.js/build_1");
    assert.equal(id, "spiffe://example.org/ci/Owner/repo.js/build_1");
    assert.equal(trustDomainOf(id), "example.org");
    assert.equal(pathOf(id), "/ci/Owner/repo.js/build_1");
  });

  it("takes the ID of a trust domain, which has no path", () => {
    assert.equal(pathOf(parseSpiffeId("spiffe://example.org")), "");
  });

  const refused: readonly (readonly [string, string, SpiffeIdFault])[] = [
    ["nothing", "", "scheme"],
    ["another scheme", "https://example.org/x", "scheme"],
    ["an upper-case scheme", "SPIFFE://example.org/x", "scheme"],
    ["leading white space", " spiffe://example.org/x", "scheme"],
    ["no trust domain", "spiffe://", "trust-domain"],
    ["a path without trust domain", "spiffe:///x", "trust-domain"],
    ["an upper-case trust domain", "spiffe://Example.org/x", "trust-domain"],
    ["a port", "spiffe://example.org:443/x", "trust-domain"],
    ["user information", "spiffe://me@example.org/x", "trust-domain"],
    ["an escaped trust domain", "spiffe://example%2eorg/x", "trust-domain"],
    ["a query without path", "spiffe://example.org?x", "trust-domain"],
    ["a trust domain of 256 characters", `spiffe://${"a".repeat(256)}/x`, "trust-domain"],
    ["a root path", "spiffe://example.org/", "trailing-slash"],
    ["a trailing slash", "spiffe://example.org/x/", "trailing-slash"],
    ["an empty segment", "spiffe://example.org/a//b", "empty-segment"],
    ["a segment .", "spiffe://example.org/a/./b", "dot-segment"],
    ["a segment ..", "spiffe://example.org/a/../b", "dot-segment"],
    ["a last segment ..", "spiffe://example.org/a/..", "dot-segment"],
    ["an escaped path", "spiffe://example.org/a/%2e%2e/b", "segment"],
    ["a space", "spiffe://example.org/a b", "segment"],
    ["a query", "spiffe://example.org/a?b", "segment"],
    ["a fragment", "spiffe://example.org/a#b", "segment"],
    ["a comma", "spiffe://example.org/a,URI:spiffe://example.org/b", "segment"],
    ["a line end", "spiffe://example.org/a\n", "segment"],
    ["a zero byte", "spiffe://example.org/a\0", "segment"],
    ["another alphabet", "spiffe://example.org/\u0430", "segment"],
    ["2049 characters", `spiffe://example.org/${"a".repeat(2049 - 21)}`, "length"],
  ];
  for (const [what, text, fault] of refused) {
    it(`refuses ${what}`, () => {
      assert.throws(() => parseSpiffeId(text), withFault(fault));
    });
  }

  it("takes an ID of exactly 2048 characters and a trust domain of exactly 255", () => {
    assert.equal(parseSpiffeId(`spiffe://example.org/${"a".repeat(2048 - 21)}`).length, 2048);
    assert.equal(trustDomainOf(parseSpiffeId(`spiffe://${"a".repeat(255)}/x`)).length, 255);
  });

  it("says in the error what is wrong, on one line and without the whole of a huge text", () => {
    assert.throws(() => parseSpiffeId("spiffe://example.org/a\n/b"), {
      message: '"spiffe://example.org/a\\n/b" is not a SPIFFE ID: path segments must be of A-Z a-z 0-9 . - _',
    });
    assert.throws(
      () => parseSpiffeId("x".repeat(100_000)),
      (error) => error instanceof Error && error.message.length < 300,
    );
  });

  for (const text of ["", "Example.org", "spiffe://example.org", "a/b", "a:1", "a b", "a".repeat(256)]) {
    it(`refuses the trust domain ${JSON.stringify(text.slice(0, 20))}`, () => {
      assert.throws(() => parseTrustDomain(text), withFault("trust-domain"));
    });
  }

  it("joins segments and refuses a segment that would be several or none", () => {
    assert.equal(joinSpiffeId(td, "ci", "owner", "repo"), "spiffe://example.org/ci/owner/repo");
    assert.equal(joinSpiffeId(td), "spiffe://example.org");
    assert.throws(() => joinSpiffeId(td, "ci", "a/b"), withFault("segment"));
    assert.throws(() => joinSpiffeId(td, "ci", ""), withFault("empty-segment"));
    assert.throws(() => joinSpiffeId(td, ".."), withFault("dot-segment"));
    assert.throws(() => joinSpiffeId(td, "a".repeat(2048)), withFault("length"));
  });

  it("gives back what it joined", () => {
    fc.assert(
      fc.property(trustDomain, fc.array(segment, { maxLength: 8 }), (domain, segments) => {
        const id = joinSpiffeId(parseTrustDomain(domain), ...segments);
        assert.equal(trustDomainOf(id), domain);
        assert.deepEqual(pathOf(id).split("/").slice(1), segments);
        assert.equal(parseSpiffeId(id), id);
      }),
    );
  });

  it("never takes a text that a parser of URLs would change", () => {
    const text = fc.oneof(
      fc.string({ unit: "binary" }),
      fc
        .array(
          fc.constantFrom("spiffe://", "td", "/", ".", "..", "%2e", "A", ":", "@", "?", "#", " ", "\\", "\t"),
        )
        .map((parts) => `spiffe://${parts.join("")}`),
    );
    fc.assert(
      fc.property(text, (candidate) => {
        let id: string;
        try {
          id = parseSpiffeId(candidate);
        } catch (error) {
          assert.ok(error instanceof SpiffeIdError);
          return;
        }
        assert.equal(id, candidate);
        assert.equal(new URL(id).href, id);
      }),
      { numRuns: 2000 },
    );
  });
});
