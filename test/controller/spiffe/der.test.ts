import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { certificatePem, DerError, readDer, splitCertificates } from "../../../controller/spiffe/der.ts";
import { createTestCa, issueLeaf } from "../../support/test-pki.ts";

/** An element with a length in its shortest form. */
function encode(tag: number, content: Uint8Array): Uint8Array {
  const digits: number[] = [];
  for (let rest = content.length; rest > 0; rest = Math.floor(rest / 256)) digits.unshift(rest % 256);
  const length = content.length < 0x80 ? [content.length] : [0x80 | digits.length, ...digits];
  return Uint8Array.from([tag, ...length, ...content]);
}

const certificateLike = fc.oneof(
  fc.uint8Array({ maxLength: 140 }),
  fc.integer({ min: 120, max: 70_000 }).map((length) => new Uint8Array(length)),
);

describe("DER", () => {
  it("splits certificates that are written one after the other", () => {
    fc.assert(
      fc.property(fc.array(certificateLike, { maxLength: 4 }), (contents) => {
        const certificates = contents.map((content) => encode(0x30, content));
        const split = splitCertificates(Buffer.concat(certificates));
        assert.deepEqual(
          split.map((bytes) => Buffer.from(bytes)),
          certificates.map((bytes) => Buffer.from(bytes)),
        );
      }),
      { numRuns: 50 },
    );
  });

  it("refuses certificates that are cut short anywhere but between two", () => {
    const two = [encode(0x30, new Uint8Array(200)), encode(0x30, new Uint8Array(3))];
    const all = Buffer.concat(two);
    for (let end = 1; end < all.length; end++) {
      if (end === two[0]?.length) continue;
      assert.throws(() => splitCertificates(all.subarray(0, end)), DerError, `cut at ${end}`);
    }
  });

  it("reads any bytes or throws a DerError, and never loses one", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        try {
          const elements = readDer(bytes);
          assert.deepEqual(Buffer.concat(elements.map(({ encoded }) => encoded)), Buffer.from(bytes));
        } catch (error) {
          assert.ok(error instanceof DerError);
        }
      }),
      { numRuns: 2000 },
    );
  });

  const refused: readonly (readonly [string, readonly number[], RegExp])[] = [
    ["a lone tag", [0x30], /cut short/],
    ["an indefinite length", [0x30, 0x80, 0, 0], /indefinite/],
    ["a length of five bytes", [0x30, 0x85, 0, 0, 0, 0, 1, 0], /more than four/],
    ["a length that is cut short", [0x30, 0x82, 1], /cut short/],
    ["a long form for a short length", [0x30, 0x81, 1, 0], /shortest form/],
    ["a length with a leading zero", [0x30, 0x82, 0, 0x80], /shortest form|longer/],
    ["a huge length", [0x30, 0x84, 0xff, 0xff, 0xff, 0xff], /longer/],
    ["a tag of several bytes", [0x3f, 0x81, 1, 0], /more than one byte/],
    ["something that is no SEQUENCE", [0x04, 0], /0x30, not with 0x4/],
    ["bytes after the last certificate", [0x30, 0, 0], /cut short/],
  ];
  for (const [what, bytes, message] of refused) {
    it(`refuses ${what}`, () => {
      assert.throws(
        () => splitCertificates(Uint8Array.from(bytes)),
        (error) => error instanceof DerError && message.test(error.message),
      );
    });
  }

  it("writes the PEM that node:crypto writes", async () => {
    const root = await createTestCa();
    const { chainDer } = await issueLeaf(await createTestCa("example.org", root), "spiffe://example.org/a");
    const certificates = splitCertificates(chainDer);
    assert.equal(certificates.length, 2);
    for (const der of certificates) assert.equal(certificatePem(der), new X509Certificate(der).toString());
  });
});
