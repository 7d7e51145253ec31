import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { executorEnvironment } from "../../../controller/assignment/executor-environment.ts";
import { anAssignment } from "../../support/builders.ts";

describe("executor environment", () => {
  it("B-75 is these variables and no other: the capability is the only secret", () => {
    const facade = { url: "https://facade:8443", spiffeId: "spiffe://example.org/facade" };
    assert.deepEqual(executorEnvironment(anAssignment({ backend: "vm" }), "1.nonce.signature", facade), {
      CI_ASSIGNMENT_ID: "gitea-task-42",
      CI_BACKEND: "vm",
      CI_RUNNER_CAPABILITY: "1.nonce.signature",
      CI_SPIFFE_ID: "spiffe://example.org/ci/acme/widgets/build",
      RUNNER_FACADE_URL: "https://facade:8443",
      RUNNER_FACADE_SPIFFE_ID: "spiffe://example.org/facade",
    });
  });
});
