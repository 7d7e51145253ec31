import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { parseSpiffeId } from "../../../controller/identity/spiffe-id.ts";
import { exactly, oneOf } from "../../../controller/spiffe/authorize.ts";

const facade = parseSpiffeId("spiffe://example.org/controller");
const longer = parseSpiffeId("spiffe://example.org/controller/x");
const shorter = parseSpiffeId("spiffe://example.org/control");
const upper = parseSpiffeId("spiffe://example.org/Controller");

describe("authorizer", () => {
  for (const authorizer of [exactly(facade), oneOf([facade, parseSpiffeId("spiffe://example.org/b")])]) {
    it(`lets in ${authorizer.expected} and no name that resembles it`, () => {
      assert.equal(authorizer.allows(facade), true);
      for (const id of [longer, shorter, upper]) assert.equal(authorizer.allows(id), false);
    });
  }

  it("lets nobody in if nobody is expected", () => {
    assert.equal(oneOf([]).allows(facade), false);
  });
});
