import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { IdentityError } from "../../../controller/identity/errors.ts";
import { isJobKey, jobIdentity, jobSpiffeId, sanitise } from "../../../controller/identity/job-identity.ts";
import { joinSpiffeId, parseSpiffeId, parseTrustDomain } from "../../../controller/identity/spiffe-id.ts";
import { aPullRequest, aTaskContext } from "../../support/builders.ts";

const td = parseTrustDomain("example.org");

/** Any text, and often one that is made of what sanitise itself writes. */
const tricky = fc
  .array(fc.constantFrom(".", "..", "2e", "2f", "%", "-", "_", "a", "A", "é", "/", "\0", "🙂", " "), {
    maxLength: 8,
  })
  .map((parts) => parts.join(""));
const anyName = fc.oneof(tricky, fc.string({ unit: "binary" }), fc.string());
const name = anyName.filter((text) => text !== "");
/** Repositories as Gitea allows them: `[-.\w]+` without `..`, and neither `.` nor `..`. */
const giteaName = fc
  .stringMatching(/^[A-Za-z0-9_.-]{1,100}$/)
  .filter((text) => !text.includes("..") && text !== ".");
const part = name.filter((text) => !text.includes("/"));
const repository = fc.tuple(part, part).map((parts) => parts.join("/"));
const jobKey = fc.stringMatching(/^[A-Za-z_][A-Za-z0-9_-]{0,30}$/);
const trust = fc.constantFrom("branch" as const, "fork" as const);

describe("sanitise", () => {
  it("B-10 gives different names different segments", () => {
    fc.assert(
      fc.property(name, name, (a, b) => a === b || sanitise(a) !== sanitise(b)),
      { numRuns: 5000 },
    );
  });

  it("B-10 gives back every byte of a name, so no two names can meet", () => {
    fc.assert(
      fc.property(name, (text) => decoded(sanitise(text)) === text),
      { numRuns: 2000 },
    );
  });

  it("B-10 leaves every name that Gitea allows as it is", () => {
    fc.assert(fc.property(giteaName, (text) => sanitise(text) === text));
    for (const text of ["-1_.", ".profile", "A", "next.js", "_", "a".repeat(255)])
      assert.equal(sanitise(text), text);
  });

  it("B-10 gives one legal segment of a SPIFFE ID for every name", () => {
    fc.assert(
      fc.property(name, (text) => {
        assert.equal(
          joinSpiffeId(td, "ci", sanitise(text), "x"),
          `spiffe://example.org/ci/${sanitise(text)}/x`,
        );
      }),
      { numRuns: 2000 },
    );
  });

  const known: readonly (readonly [string, string])[] = [
    [".", "..2e"],
    ["..", "..2e."],
    ["...", "..2e..2e."],
    ["a..b", "a..2e.b"],
    ["..2e", "..2e.2e"],
    ["a/b", "a..2fb"],
    ["%2f", "..252f"],
    ["é", "..c3..a9"],
    ["a.é", "a..2e..c3..a9"],
    ["A", "A"],
  ];
  for (const [text, segment] of known) {
    it(`B-10 writes ${JSON.stringify(text)} as ${segment}`, () => {
      assert.equal(sanitise(text), segment);
    });
  }
});

describe("job identity", () => {
  it("B-10 names trust domain, owner, repository and job", () => {
    assert.deepEqual(jobIdentity("example.org", aTaskContext()), {
      repository: "acme/widgets",
      jobKey: "build",
      trust: "branch",
      spiffeId: "spiffe://example.org/ci/acme/widgets/build",
    });
  });

  it("B-10 puts a fork's job under a root of its own", () => {
    const identity = jobIdentity("example.org", aTaskContext(aPullRequest("mallory/widgets")));
    assert.equal(identity.trust, "fork");
    assert.equal(identity.spiffeId, "spiffe://example.org/ci-fork/acme/widgets/build");
  });

  it("B-10 never gives one SPIFFE ID to two repositories, to two jobs, or to a fork and a branch", () => {
    const id = (of: readonly [string, string, "branch" | "fork"]) => jobSpiffeId("example.org", ...of);
    const job = fc.tuple(repository, jobKey, trust);
    fc.assert(
      fc.property(job, job, (a, b) => a.join("\n") === b.join("\n") || id(a) !== id(b)),
      { numRuns: 3000 },
    );
    fc.assert(fc.property(repository, jobKey, (r, j) => id([r, j, "branch"]) !== id([r, j, "fork"])));
  });

  it("B-10 gives an ID that parses as one, whatever the repository is called", () => {
    fc.assert(
      fc.property(repository, jobKey, trust, (r, j, t) => {
        assert.equal(parseSpiffeId(jobSpiffeId("example.org", r, j, t)).split("/").length, 7);
      }),
    );
  });

  for (const text of [
    "",
    "widgets",
    "/widgets",
    "acme/",
    "acme//widgets",
    "a/b/c",
    "/",
    "acme/widgets/",
    "a/\ud800",
  ]) {
    it(`B-10 refuses the repository ${JSON.stringify(text)}, which is not owner/name`, () => {
      assert.throws(
        () => jobIdentity("example.org", aTaskContext({ repository: text })),
        (error) => error instanceof IdentityError && error.message.includes("repository"),
      );
    });
  }

  for (const text of [
    "",
    "a b",
    "a/b",
    "../x",
    "a.b",
    "9a",
    "-a",
    "ä",
    "build\n",
    "a".repeat(256),
    "${{ x }}",
  ]) {
    it(`B-10 refuses the job key ${JSON.stringify(text.slice(0, 20))}`, () => {
      assert.equal(isJobKey(text), false);
      assert.throws(
        () => jobIdentity("example.org", aTaskContext({ job: text })),
        (error) => error instanceof IdentityError && error.message.includes("job"),
      );
    });
  }

  for (const field of ["repository", "job"]) {
    it(`B-10 refuses a context without ${field}`, () => {
      for (const value of [undefined, null, 1, {}])
        assert.throws(
          () => jobIdentity("example.org", aTaskContext({ [field]: value })),
          (error) => error instanceof IdentityError && error.message.includes(field),
        );
    });
  }

  it("B-10 takes nothing but repository, job, and whose code it is", () => {
    const identity = jobIdentity("example.org", aTaskContext());
    const other = fc.record({
      repository_owner: fc.string(),
      actor: fc.string(),
      workflow: fc.string(),
      run_id: fc.string(),
      env: fc.string(),
      ref_name: fc.string(),
      event_name: fc.string(),
      head_ref: fc.string(),
    });
    fc.assert(
      fc.property(other, (fields) => {
        assert.deepEqual(jobIdentity("example.org", aTaskContext(fields)), identity);
      }),
    );
  });

  it("B-10 refuses an ID that would be longer than 2048 bytes, and takes one that is exactly that long", () => {
    const room = 2048 - "spiffe://example.org/ci/acme//build".length;
    assert.equal(jobSpiffeId("example.org", `acme/${"a".repeat(room)}`, "build", "branch").length, 2048);
    assert.throws(
      () => jobSpiffeId("example.org", `acme/${"a".repeat(room + 1)}`, "build", "branch"),
      IdentityError,
    );
    assert.throws(
      () => jobSpiffeId("example.org", `acme/${"🙂".repeat(200)}`, "build", "branch"),
      IdentityError,
    );
  });
});

/** Reads a segment as sanitise's comment promises that it can be read. */
function decoded(segment: string): string {
  const bytes: number[] = [];
  for (let at = 0; at < segment.length; at++) {
    if (segment.startsWith("..", at)) {
      bytes.push(Number.parseInt(segment.slice(at + 2, at + 4), 16));
      at += 3;
    } else bytes.push(segment.charCodeAt(at));
  }
  return Buffer.from(bytes).toString("utf8");
}
