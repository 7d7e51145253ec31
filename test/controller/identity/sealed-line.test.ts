import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { openLine, readLine, sealLine, type SealedWith } from "../../../controller/identity/sealed-line.ts";
import { testKeyRing } from "../../support/jetstream.ts";

const ring = testKeyRing(1);
const secret = Buffer.from("hunter2");

function opened(bytes: Uint8Array, keys = ring) {
  const read = readLine(bytes);
  assert.ok(read !== undefined);
  return openLine(keys, read, read.value as SealedWith);
}

describe("a sealed line", () => {
  it("says its header and the key in clear, and nothing of the secret", () => {
    const bytes = Buffer.from(sealLine(ring, { id: "x" }, secret, randomBytes));
    assert.equal(bytes.includes("hunter2"), false);
    const { id, key, iv, ...rest } = (readLine(bytes) ?? { value: {} }).value as Record<string, string>;
    assert.deepEqual([id, key, rest], ["x", ring[0].id, {}]);
    assert.equal(Buffer.from(iv ?? "", "base64").length, 12);
    assert.deepEqual(opened(bytes), { kind: "opened", secret });
  });

  it("is opened with any key of the ring, and not without its own", () => {
    const bytes = sealLine(ring, {}, secret, randomBytes);
    assert.equal(opened(bytes, testKeyRing(2, 1)).kind, "opened");
    assert.equal(opened(bytes, testKeyRing(2)).kind, "unknown-key");
  });

  it("is opened only as it was sealed: no byte of line, secret or tag may change", () => {
    const bytes = sealLine(ring, { id: "x" }, secret, randomBytes);
    fc.assert(
      fc.property(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 }), (at, difference) => {
        const changed = Buffer.from(bytes);
        changed[at] = (changed[at] as number) ^ difference;
        const read = readLine(changed);
        if (read === undefined) return;
        const { key, iv } = { key: ring[0].id, iv: "", ...(read.value as object) } as SealedWith;
        assert.notEqual(openLine(ring, read, { key, iv }).kind, "opened");
      }),
    );
  });

  it("is none without a line of JSON, or with one that is too long", () => {
    for (const text of ["", "garbage", "garbage\n", `${JSON.stringify("x".repeat(20_000))}\n`])
      assert.equal(readLine(Buffer.from(text)), undefined);
  });

  it("never throws, whatever its vector and its secret are", () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.string(), (sealed, iv) => {
        assert.equal(openLine(ring, { line: Buffer.of(1), sealed }, { key: ring[0].id, iv }).kind, "changed");
      }),
    );
  });
});
