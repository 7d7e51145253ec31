import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { failureFor } from "../../../controller/assignment/failure.ts";
import { failureAfterClaim, failureBeforeClaim } from "../../../controller/assignment/failure-at-claim.ts";
import { failureReasons, isDeath, isStartFailure } from "../../../controller/assignment/failure-reasons.ts";

describe("failure at the claim", () => {
  it("before it is never a death, after it never a failure to start, whatever a backend says", () => {
    for (const reason of failureReasons) {
      if (reason === "unregistered") continue;
      const failure = failureFor(reason, "seen");
      assert.equal(isDeath(failureBeforeClaim(failure).reason), false, reason);
      assert.equal(isStartFailure(failureAfterClaim(failure).reason), false, reason);
    }
  });

  it("before it is what the bootstrap said last, where it ended by itself", () => {
    const said = (error: string) => `exit code 1: {"component":"bootstrap","error":"${error}"}`;
    for (const [words, reason] of [
      ["no X.509-SVID for spiffe://a/b from unix:///s: none came within 120 s", "identity"],
      ["gitea-job-started ended with exit code 1", "docker"],
      ["gitea-job-started did not end", "docker"],
      ["facade away", "start_failed"],
    ] as const) {
      assert.equal(failureBeforeClaim(failureFor("start_failed", said(words))).reason, reason);
      assert.equal(failureBeforeClaim(failureFor("no_result", said(words))).reason, reason);
      assert.equal(failureBeforeClaim(failureFor("too_slow", said(words))).reason, "too_slow");
    }
  });

  it("keeps what already fits, and what holds for both", () => {
    const before = failureFor("image_missing", "not found");
    assert.equal(failureBeforeClaim(before), before);
    const after = failureFor("oom", "limit 2Gi");
    assert.equal(failureAfterClaim(after), after);
    const both = failureFor("unregistered", "");
    assert.equal(failureBeforeClaim(both), both);
    assert.equal(failureAfterClaim(both), both);
  });

  it("keeps the backend's own reason in the evidence where another takes its place", () => {
    assert.deepEqual(
      failureBeforeClaim(failureFor("oom", "limit 2Gi")),
      failureFor("start_oom", "oom: limit 2Gi"),
    );
    assert.deepEqual(
      failureBeforeClaim(failureFor("evicted", "the node was low on memory")),
      failureFor("deleted_before_claim", "evicted: the node was low on memory"),
    );
    assert.deepEqual(
      failureAfterClaim(failureFor("start_failed", "code 3")),
      failureFor("no_result", "start_failed: code 3"),
    );
  });
});
