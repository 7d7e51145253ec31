import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import path from "node:path";
import { promisify } from "node:util";
import { describe, it } from "mocha";
import { parseFailPoint } from "../../support/chaos/fail-point.ts";
import { patchSource } from "../../support/patch-source.ts";

const preload = path.join(import.meta.dirname, "../../support/fail-points.ts");

describe("a fail point", () => {
  it("is a name, a number and a side", () => {
    assert.deepEqual(parseFailPoint("publish:3:before"), { name: "publish", nth: 3, when: "before" });
    for (const text of [undefined, "", "publish", "publsh:1:after", "publish:0:after", "publish:1:during"])
      assert.throws(() => parseFailPoint(text), /FAIL_POINT/);
  });

  it("that does not exist lets no program begin", async () => {
    const env = { PATH: process.env["PATH"], FAIL_POINT: "nowhere:1:after" };
    const program = promisify(execFile)(process.execPath, ["--import", preload, "--eval", "0"], { env });
    await assert.rejects(program, /FAIL_POINT=nowhere:1:after/);
  });
});

describe("a patch of a source file", () => {
  it("is refused unless its place is there once", () => {
    const patch = (from: string) => () => patchSource({ file: "controller/controller.ts", from, to: "" });
    assert.throws(patch("no such text"), /has "no such text" 0 times, not once/);
    assert.throws(patch("const "), /has "const " \d+ times, not once/);
  });
});
