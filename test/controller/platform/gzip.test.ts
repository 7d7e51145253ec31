import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { gunzip, gzip } from "../../../controller/platform/gzip.ts";

describe("gzip", () => {
  it("gives back what was compressed", async () => {
    const bytes = Buffer.from("log row\n".repeat(10_000));
    const compressed = await gzip(bytes);
    assert.ok(compressed.length < bytes.length / 10);
    assert.deepEqual(Buffer.from(await gunzip(compressed, bytes.length)), bytes);
  });

  it("refuses what is larger than allowed by a single byte, and says the limit", async () => {
    const compressed = await gzip(new Uint8Array(1001));
    await assert.rejects(gunzip(compressed, 1000), /^Error: it has more than 1000 bytes uncompressed$/);
  });

  for (const [what, bytes] of [
    ["garbage", Buffer.from("hunter2 is no gzip")],
    ["nothing", new Uint8Array()],
  ] as const) {
    it(`refuses ${what} without quoting it`, async () => {
      await assert.rejects(gunzip(bytes, 1000), /^Error: it is not gzip$/);
    });
  }

  it("refuses gzip that was cut off", async () => {
    const compressed = await gzip(Buffer.from("hello".repeat(100)));
    await assert.rejects(gunzip(compressed.subarray(0, -5), 1000), /it is not gzip/);
  });
});
