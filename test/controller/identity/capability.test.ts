import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import {
  type CapabilityClaims,
  signCapability,
  verifyCapability,
} from "../../../controller/identity/capability.ts";
import { parseKeyRing } from "../../../controller/identity/key-ring.ts";
import { anAssignment, anAttempt } from "../../support/builders.ts";

const ring = (...secrets: readonly string[]) =>
  parseKeyRing(secrets.map((secret) => secret.padEnd(32, "=")).join("\n"));

const claims = (overrides: Partial<CapabilityClaims> = {}): CapabilityClaims => ({
  assignmentId: anAssignment().id,
  spiffeId: anAssignment().spiffeId,
  attempt: anAttempt(),
  ...overrides,
});

const anyClaims: fc.Arbitrary<CapabilityClaims> = fc.record({
  assignmentId: fc.oneof(fc.constantFrom("gitea-task-1", "gitea-task-11", "1"), fc.string()),
  spiffeId: fc.oneof(fc.constantFrom("spiffe://td/ci/a/b/c", "spiffe://td/ci/a/b/c1"), fc.string()),
  attempt: fc
    .tuple(fc.integer({ min: 1, max: 999_999_999 }), fc.stringMatching(/^[0-9a-f]{32}$/))
    .map(([number, nonce]) => ({ number, nonce })),
});

describe("capability", () => {
  it("B-11 is the same for the same claims, before and after a restart", () => {
    fc.assert(
      fc.property(
        anyClaims,
        (some) => signCapability(ring("one"), some) === signCapability(ring("one"), some),
      ),
    );
  });

  it("B-11 is what any HMAC-SHA256 over the fields behind their lengths gives", () => {
    assert.equal(
      signCapability(ring("a-secret-of-at-least-32-characters"), claims()),
      "1.00000000000000000000000000000001.qHB-dWUQDwLssMpKMinzweR1YByI5QyDPmYQ2dbNt-E",
    );
  });

  const others: readonly (readonly [string, Partial<CapabilityClaims>])[] = [
    ["assignment", { assignmentId: "gitea-task-43" }],
    ["SPIFFE ID", { spiffeId: "spiffe://example.org/ci-fork/acme/widgets/build" }],
    ["attempt", { attempt: anAttempt({ number: 2, nonce: anAttempt().nonce }) }],
    ["nonce", { attempt: anAttempt({ nonce: "f".repeat(32) }) }],
  ];
  for (const [what, change] of others) {
    it(`B-11 is another one for another ${what}, its signature too`, () => {
      const [, , signature] = signCapability(ring("one"), claims()).split(".");
      assert.notEqual(signature, signCapability(ring("one"), claims(change)).split(".")[2]);
    });
  }

  it("B-11 never signs two different sets of claims alike, however the fields run together", () => {
    const text = fc.stringMatching(/^[0-9:]{0,6}$/);
    const close = fc.record({ assignmentId: text, spiffeId: text, attempt: fc.constant(anAttempt()) });
    fc.assert(
      fc.property(close, close, (a, b) => {
        const same = a.assignmentId === b.assignmentId && a.spiffeId === b.spiffeId;
        assert.equal(signCapability(ring("one"), a) === signCapability(ring("one"), b), same);
      }),
      { numRuns: 1000 },
    );
  });

  it("B-11 gives back the attempt that it was signed for", () => {
    fc.assert(
      fc.property(anyClaims, (some) => {
        assert.deepEqual(
          verifyCapability(ring("one"), signCapability(ring("one"), some), some),
          some.attempt,
        );
      }),
    );
  });

  it("B-11 holds for no other assignment and no other SPIFFE ID", () => {
    fc.assert(
      fc.property(anyClaims, anyClaims, (signed, asked) => {
        const same = signed.assignmentId === asked.assignmentId && signed.spiffeId === asked.spiffeId;
        const attempt = verifyCapability(ring("one"), signCapability(ring("one"), signed), asked);
        assert.deepEqual(attempt, same ? signed.attempt : undefined);
      }),
    );
  });

  it("B-11 is verified by every key of a ring, signed by the first, and by no other key", () => {
    const byOld = signCapability(ring("old"), claims());
    assert.deepEqual(verifyCapability(ring("new", "old"), byOld, claims()), anAttempt());
    assert.equal(verifyCapability(ring("new"), byOld, claims()), undefined);
    assert.equal(signCapability(ring("new", "old"), claims()), signCapability(ring("new"), claims()));
  });

  it("B-11 is refused with any one character changed, added or missing", () => {
    const text = signCapability(ring("one"), claims());
    for (let at = 0; at < text.length; at++) {
      for (const other of ["A", "B", "g", "0", "1", "-", "_", ".", "", "AA", "=", " ", "\n"]) {
        const changed = text.slice(0, at) + other + text.slice(at + 1);
        if (changed !== text)
          assert.equal(verifyCapability(ring("one"), changed, claims()), undefined, `${at}: ${other}`);
      }
    }
  });

  it("B-11 has one spelling: bits that decoding would ignore are compared too", () => {
    const text = signCapability(ring("one"), claims());
    const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const verified = alphabet
      .split("")
      .filter((last) => verifyCapability(ring("one"), text.slice(0, -1) + last, claims()) !== undefined);
    assert.deepEqual(verified, [text.at(-1)]);
  });

  for (const text of [
    "",
    ".",
    "..",
    "1",
    "1..",
    `1.${"0".repeat(32)}.`,
    "x".repeat(100_000),
    "0.0.0",
    "\0",
  ]) {
    it(`B-11 refuses ${JSON.stringify(text.slice(0, 40))}`, () => {
      assert.equal(verifyCapability(ring("one"), text, claims()), undefined);
    });
  }

  it("B-11 refuses any text that nobody signed, without an error", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        assert.equal(verifyCapability(ring("one", "two"), text, claims()), undefined);
      }),
    );
  });

  it("fits an environment variable and a header", () => {
    fc.assert(
      fc.property(anyClaims, (some) => /^[A-Za-z0-9_.-]{78,90}$/.test(signCapability(ring("one"), some))),
    );
  });
});
