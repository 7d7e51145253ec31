import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { readBundle, stillTrusted } from "../../../controller/spiffe/bundle.ts";
import { createTestCa, issueLeaf } from "../../support/test-pki.ts";

describe("a leaf below an intermediate CA", () => {
  it("is trusted as long as no CA has left that was there when it was verified, and never if that is not known", async () => {
    const [root, second] = await Promise.all([createTestCa(), createTestCa()]);
    const intermediate = await createTestCa("example.org", root);
    const { certificate } = await issueLeaf(intermediate, "spiffe://example.org/a");
    const [one, both] = [readBundle([root.pem]), readBundle([root.pem, second.pem])];
    assert.equal(stillTrusted(certificate, one, both), true);
    assert.equal(stillTrusted(certificate, both, one), false);
    assert.equal(stillTrusted(certificate, undefined, both), false);
  });
});
