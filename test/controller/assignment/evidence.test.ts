import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { maxEvidence, tidyEvidence } from "../../../controller/assignment/evidence.ts";
import { parseKeyRing } from "../../../controller/identity/key-ring.ts";
import { signCapability } from "../../../controller/identity/capability.ts";
import { anAssignment, anAttempt } from "../../support/builders.ts";
import { anyEvidence } from "../../support/any-evidence.ts";

const hex = "0123456789abcdef0123456789abcdef01234567";
const base64url = "aB3-_fGhIjKlMnOpQrStUvWxYz0123456789AbCdEfG";

describe("evidence", () => {
  it("is one line of bounded length without control characters, whatever was seen", () => {
    fc.assert(
      fc.property(anyEvidence, (text) => {
        const evidence = tidyEvidence(text);
        assert.ok(evidence.length <= maxEvidence);
        assert.ok(evidence.isWellFormed());
        assert.doesNotMatch(evidence, /[\p{Cc}\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/u);
        assert.equal(evidence, evidence.trim());
      }),
      { numRuns: 1000 },
    );
  });

  it("stays as it is when it is made tidy again", () => {
    fc.assert(
      fc.property(anyEvidence, (text) => {
        const evidence = tidyEvidence(text);
        assert.equal(tidyEvidence(evidence), evidence);
      }),
      { numRuns: 1000 },
    );
  });

  it("keeps what a cluster says of an image, digests with it", () => {
    const digest = `sha256:${"0a".repeat(32)}`;
    const said = [
      `failed to pull and unpack image "registry.example:5000/ci/executor@${digest}": not found`,
      "Pod ephemeral local storage usage exceeds the total limit of containers 10Mi.",
      "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available",
      'secret "absent" not found',
      "mount callback failed: open /tmpmounts/1/etc/passwd: no such file or directory",
      "/var/lib/kubelet/pods/a0dc89cb-a06a-491e-a3bd-917977054526/volumes/kubernetes.io~empty-dir/d",
      "the executor gitea-task-1234567890-2-0123abcd ended",
    ];
    for (const text of said) assert.equal(tidyEvidence(text), text);
  });

  it("joins lines and leaves out what a terminal would obey", () => {
    assert.equal(tidyEvidence("  bye\r\n\x1b[31mred\x1b[0m\u0000\u202eend\n"), "bye [31mred [0m end");
  });

  it("shows the beginning of what is too long, and that it goes on", () => {
    const evidence = tidyEvidence(`${"word ".repeat(1000)}end`);
    assert.equal(evidence.length, maxEvidence);
    assert.match(evidence, /^word word .*…$/);
    assert.equal(tidyEvidence("😀".repeat(maxEvidence)).isWellFormed(), true);
  });

  const claims = { assignmentId: anAssignment().id, spiffeId: anAssignment().spiffeId, attempt: anAttempt() };
  const capability = signCapability(parseKeyRing("k".repeat(40)), claims);
  const secrets: readonly (readonly [string, string, string])[] = [
    ["a capability", capability, capability],
    ["a job's token", `token ${hex} was refused`, hex],
    ["a named token", "GET /x?token=abc&y=1", "abc"],
    ["a named password", 'password: "hunter2"', "hunter2"],
    ["a login in an address", "https://ci:hunter2@registry.example/v2/", "hunter2"],
    ["a bearer token", "Authorization: Bearer abcdefgh-ijklmnop.qrst", "abcdefgh"],
    ["a JWT", `eyJhbGciOiJFUzI1NiJ9.${base64url}.${base64url}`, base64url],
    ["a private key", "-----BEGIN PRIVATE KEY-----\nMIIE/a+b/c\n-----END PRIVATE KEY-----", "MIIE"],
  ];
  for (const [what, text, secret] of secrets) {
    it(`does not show ${what}`, () => {
      const evidence = tidyEvidence(`before ${text} after`);
      assert.ok(!evidence.includes(secret), evidence);
      assert.match(evidence, /^before .*\[hidden\].* after$/);
    });
  }

  it("takes time that grows with the text and no faster", () => {
    const hostile = ["://", "a", "-----BEGIN A-----", "token=", "bearer ", "sha256:", " "];
    for (const part of hostile) {
      const text = part.repeat(1_000_000);
      // Of our own: what else the machine has to do counts for nothing.
      const started = process.cpuUsage();
      tidyEvidence(text);
      const { user } = process.cpuUsage(started);
      assert.ok(user < 5_000_000, `${JSON.stringify(part)} over and over: ${user} µs`);
    }
  });
});
