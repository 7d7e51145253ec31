import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { microTime } from "../../../controller/kubernetes/micro-time.ts";

describe("a MicroTime", () => {
  for (const [text, expected] of [
    ["2026-01-02T03:04:05.678Z", "2026-01-02T03:04:05.678000Z"],
    ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000000Z"],
    ["2026-01-02T03:04:05.123456789+01:00", "2026-01-02T03:04:05.123456+01:00"],
    ["2026-01-02T03:04:05.123456Z", "2026-01-02T03:04:05.123456Z"],
    ["", null],
    ["yesterday", null],
    ["2026-01-02", null],
  ] as const)
    it(`is ${expected} for ${JSON.stringify(text)}`, () => {
      assert.equal(microTime(text), expected);
    });
});
