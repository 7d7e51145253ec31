import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { describeError } from "../../../controller/platform/errors.ts";

describe("the description of an error", () => {
  it("is the chain of its causes, each text once", () => {
    const cause = new Error("getting a file", { cause: "no such file" });
    assert.equal(
      describeError(new Error("starting: getting a file", { cause })),
      "starting: getting a file: no such file",
    );
    assert.equal(describeError({ some: "thing" }), "unknown error");
  });

  it("says all that went wrong where several ways failed, as with the addresses of a name", () => {
    const ways = ["10.0.0.1", "10.0.0.2", "10.0.0.1"].map(
      (host) => new Error(`connect ECONNREFUSED ${host}`),
    );
    assert.equal(
      describeError(new Error("unavailable", { cause: new AggregateError(ways) })),
      "unavailable: connect ECONNREFUSED 10.0.0.1; connect ECONNREFUSED 10.0.0.2",
    );
  });
});
