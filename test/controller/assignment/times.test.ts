import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { defaultTimes as times } from "../../../controller/assignment/times.ts";
import { defaultTimes as bootstrapTimes } from "../../../controller/bootstrap/times.ts";

describe("the table of times", () => {
  it("I11 leaves an executor whose result is stored more time than it takes to deliver its last rows", () => {
    assert.ok(times.resultGraceMs > bootstrapTimes.deliver);
  });
});
