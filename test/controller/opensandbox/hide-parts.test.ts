import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { hideParts } from "../../../controller/opensandbox/hide-parts.ts";

describe("hiding parts of values", () => {
  it("hides a value wherever it stands, and leaves the rest", () => {
    assert.equal(
      hideParts("the key s3cr3t is wrong: s3cr3t", ["s3cr3t"]),
      "the key [redacted] is wrong: [redacted]",
    );
    assert.equal(hideParts("nothing of it", ["s3cr3t"]), "nothing of it");
    assert.equal(hideParts("", ["s3cr3t"]), "");
  });

  it("hides pieces of one, cut off at either end", () => {
    const value = "planted-token-of-the-job";
    assert.equal(hideParts("you sent planted-tok...", [value]), "you sent [redacted]...");
    assert.equal(hideParts("...f-the-job ends", [value]), "...[redacted] ends");
  });

  it("hides a value that is escaped", () => {
    const value = 'one"two\nthree';
    for (const text of [JSON.stringify(value).slice(1, -1), encodeURIComponent(value), 'one"two three'])
      assert.equal(hideParts(`a ${text} b`, [value]), "a [redacted] b");
  });

  it("leaves what is too short to be a secret", () => {
    assert.equal(hideParts("1 of 3", ["1", "3", "of", ""]), "1 of 3");
  });

  it("lets no eight characters of any value through", () => {
    const value = fc.string({ minLength: 8, maxLength: 40, unit: "binary" });
    fc.assert(
      fc.property(value, fc.string(), fc.string(), fc.nat(), fc.nat(), (secret, before, after, from, to) => {
        const units = Array.from(secret);
        const piece = units.slice(from % 4, units.length - (to % 4)).join("");
        const shown = hideParts(before + piece + after, [secret]).split("[redacted]");
        for (const part of shown)
          for (let at = 0; at + 8 <= units.length; at++)
            assert.ok(!part.includes(units.slice(at, at + 8).join("")));
      }),
    );
  });
});
