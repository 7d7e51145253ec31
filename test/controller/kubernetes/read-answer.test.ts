import assert from "node:assert/strict";
import { Readable } from "node:stream";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { readEvents } from "../../../controller/kubernetes/read-answer.ts";

describe("the events of a watch", () => {
  it("are the same, wherever the network cuts them", async () => {
    const objects = fc.array(
      fc.record({ name: fc.string({ unit: "grapheme" }) }, { noNullPrototype: true }),
      { maxLength: 8 },
    );
    await fc.assert(
      fc.asyncProperty(objects, fc.infiniteStream(fc.integer({ min: 1, max: 40 })), async (all, sizes) => {
        const bytes = Buffer.from(
          all.map((object) => `${JSON.stringify({ type: "ADDED", object })}\n`).join(""),
        );
        const chunks: Buffer[] = [];
        for (let at = 0; at < bytes.length;) {
          const size = Number(sizes.next().value);
          chunks.push(bytes.subarray(at, at + size));
          at += size;
        }
        const events = await Array.fromAsync(readEvents(Readable.from(chunks), "WATCH", 1_000_000));
        assert.deepEqual(
          events.map(({ object }) => object),
          all,
        );
      }),
    );
  });

  it("leave out half a line at the end", async () => {
    const chunks = [Buffer.from(`{"type":"ADDED","object":{}}\n\n{"type":"ADD`)];
    assert.equal((await Array.fromAsync(readEvents(Readable.from(chunks), "WATCH", 100))).length, 1);
  });
});
