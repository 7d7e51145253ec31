import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, it } from "mocha";
import { IdentityError } from "../../../controller/identity/errors.ts";
import { type TaskContext, trustOf } from "../../../controller/identity/trust.ts";
import { aPullRequest, aTaskContext } from "../../support/builders.ts";

const forksCommit = "1111111111111111111111111111111111111111";
const mergeCommit = "2222222222222222222222222222222222222222";
const mainsCommit = "0123456789abcdef0123456789abcdef01234567";

type Pull = { base: object; head: object; [key: string]: unknown };

/** The context of a pull request, with changes to the context, to `event.pull_request` and to its head. */
function pullRequest(
  headRepository: string | null,
  changes: { context?: TaskContext; pull?: Partial<Pull>; head?: object } = {},
): TaskContext {
  const context = aTaskContext(aPullRequest(headRepository));
  const event = context["event"] as { pull_request: Pull };
  const pull = { ...event.pull_request, ...changes.pull };
  const head = { ...pull.head, ...changes.head };
  return { ...context, event: { ...event, pull_request: { ...pull, head } }, ...changes.context };
}

const own = "acme/widgets";
const fork = "mallory/widgets";

/** A ref and what Gitea 1.27 makes of it; the review's author chose it as the review's commit id. */
const reviewOf = (ref: string, sha: string) => ({ event_name: "pull_request_review", ref, sha });

const branches: readonly (readonly [string, TaskContext])[] = [
  ["a push to a branch", aTaskContext()],
  ["a push to a branch named like a pull request", aTaskContext({ ref: "refs/heads/refs/pull/9/head" })],
  ["a tag", aTaskContext({ ref: "refs/tags/v1", ref_type: "tag" })],
  ["a comment, which runs the default branch", aTaskContext({ event_name: "issue_comment" })],
  ["a pull request from a branch of the same repository", pullRequest(own)],
  ["the same through a reusable workflow", pullRequest(own, { context: { event_name: "workflow_call" } })],
  [
    "a pull request from a branch of a repository that was renamed since",
    pullRequest(own, { context: { repository: "acme/gadgets", repository_owner: "acme" } }),
  ],
  [
    "a push to that branch after the event was made",
    pullRequest(own, { context: { sha: "3333333333333333333333333333333333333333" } }),
  ],
  [
    "a review of a branch's pull request",
    pullRequest(own, { context: reviewOf(String(pullRequest(own)["sha"]), String(pullRequest(own)["sha"])) }),
  ],
  [
    "pull_request_target of a fork's pull request, which runs the base branch",
    pullRequest(fork, {
      context: { event_name: "pull_request_target", ref: "refs/heads/main", sha: mainsCommit },
    }),
  ],
  [
    "the merge of a fork's pull request",
    pullRequest(fork, {
      context: { ref: mergeCommit, sha: mergeCommit },
      pull: { merged: true, merge_commit_sha: mergeCommit },
    }),
  ],
];

const forks: readonly (readonly [string, TaskContext])[] = [
  ["a fork's pull request", pullRequest(fork)],
  [
    "a fork's pull request through a reusable workflow",
    pullRequest(fork, { context: { event_name: "workflow_call" } }),
  ],
  [
    "a review of a fork's pull request, whose ref is a bare commit",
    pullRequest(fork, {
      context: reviewOf(String(pullRequest(fork)["sha"]), String(pullRequest(fork)["sha"])),
    }),
  ],
  [
    "a review of a branch's pull request with the commit of another one",
    pullRequest(own, { context: reviewOf(forksCommit, forksCommit) }),
  ],
  [
    "a review of a branch's pull request with the ref of another one",
    pullRequest(own, { context: reviewOf("refs/pull/2/head", forksCommit) }),
  ],
  [
    "a review with a commit id that only begins like a branch",
    pullRequest(own, {
      context: { ...reviewOf("refs/heads/main-g1111111", forksCommit), ref_type: "branch" },
    }),
  ],
  [
    "a review with the name of the base branch and another commit",
    pullRequest(own, { context: reviewOf("refs/heads/main", forksCommit) }),
  ],
  [
    "a review of a merged pull request with another commit",
    pullRequest(fork, {
      context: reviewOf(forksCommit, forksCommit),
      pull: { merged: true, merge_commit_sha: mergeCommit },
    }),
  ],
  [
    "a merge commit of a pull request that is not merged",
    pullRequest(fork, {
      context: { ref: mergeCommit, sha: mergeCommit },
      pull: { merge_commit_sha: mergeCommit },
    }),
  ],
  [
    "a pull request pushed to refs/for, which has no head branch and needs no right to write",
    pullRequest(own, { head: { label: "", ref: "refs/pull/5/head" } }),
  ],
  [
    "a pull request of a branch that has been deleted since",
    pullRequest(own, { head: { ref: "refs/pull/5/head" } }),
  ],
  ["a head without any name", pullRequest(own, { head: { label: "", ref: "" } })],
  [
    "a fork's pull request that is still at the base's commit",
    pullRequest(fork, { context: { sha: mainsCommit } }),
  ],
  ["a pull request whose head repository was deleted", pullRequest(null)],
  ["a pull request without head repository", pullRequest(own, { head: { repo: undefined } })],
  [
    "a pull request of which Gitea knows no repository",
    pullRequest(null, { pull: { base: {} }, head: { ref: "topic" } }),
  ],
  [
    "a fork whose name has become that of the repository",
    pullRequest(fork, { head: { repo: { id: 2, full_name: own } } }),
  ],
  [
    "a fork whose name differs in letter case only",
    pullRequest(fork, { head: { repo: { id: 2, full_name: "Acme/Widgets" } } }),
  ],
  ["a pull request that Gitea could not describe", aTaskContext({ event: { pull_request: null } })],
  ["a pull request's ref without a pull request", aTaskContext({ ref: "refs/pull/5/head" })],
  ["a bare commit without a pull request", aTaskContext({ ref: mainsCommit })],
  ["a ref of another kind", aTaskContext({ ref: "refs/for/main" })],
  ["a branch without name", aTaskContext({ ref: "refs/heads/" })],
];

describe("trust", () => {
  for (const [what, context] of branches) {
    it(`B-10 takes for the repository's own: ${what}`, () => {
      assert.equal(trustOf(context), "branch");
    });
  }
  for (const [what, context] of forks) {
    it(`B-10 takes for a fork's: ${what}`, () => {
      assert.equal(trustOf(context), "fork");
    });
  }

  it("B-10 does not look at what a workflow's author can write", () => {
    const written = {
      event_name: "push",
      head_ref: "main",
      base_ref: "",
      env: "/tmp/x",
      actor: "acme",
      gitea_workflow_call: { original_event_name: "push" },
    };
    assert.equal(trustOf(pullRequest(fork, { context: written })), "fork");
    const context = pullRequest(fork);
    const inputs = { pull_request: pullRequest(own)["event"], ref: "refs/heads/main", event: {} };
    assert.equal(trustOf({ ...context, event: { ...(context["event"] as object), inputs } }), "fork");
  });

  it("B-10 takes a fork's code for a fork's whatever else its event says", () => {
    const text = fc.oneof(
      fc.constantFrom("", "refs/heads/main", "refs/pull/5/head", "topic", "main"),
      fc.string(),
    );
    const repository = fc.record({ id: fc.integer({ min: 2 }), full_name: fc.constantFrom(own, fork) });
    const changes = fc.record({
      context: fc.record({
        event_name: text,
        ref: text.filter((ref) => ref !== ""),
        sha: fc.constant(forksCommit),
      }),
      head: fc.record({ label: text, ref: text, repo: fc.option(repository) }),
      pull: fc.record({
        number: fc.integer(),
        merged: fc.boolean(),
        merge_commit_sha: fc.constant(mergeCommit),
      }),
    });
    fc.assert(fc.property(changes, (change) => trustOf(pullRequest(fork, change)) === "fork"));
  });

  for (const field of ["event", "ref", "sha"]) {
    for (const value of [undefined, null, "", 7]) {
      it(`refuses a context whose ${field} is ${JSON.stringify(value)}`, () => {
        assert.throws(
          () => trustOf(aTaskContext({ [field]: value })),
          (error) => error instanceof IdentityError && error.message.includes(field),
        );
      });
    }
  }
});
