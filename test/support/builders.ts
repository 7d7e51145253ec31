import { type Assignment, assignmentId } from "../../controller/assignment/assignment.ts";
import type { ExecutorMetadata } from "../../controller/assignment/executor-metadata.ts";
import { type AssignmentRecord, queuedRecord } from "../../controller/assignment/record.ts";
import type { Attempt } from "../../controller/identity/capability.ts";
import { jobSpiffeId, type TaskContext } from "../../controller/identity/job-identity.ts";

/** The trust domain of every builder's identity. */
export const testTrustDomain = "example.org";

/** When the builders' tasks were fetched: where the fake clock starts. */
export const testStart = Date.parse("2026-01-01T00:00:00Z");

/** Task 42, job `build` of `acme/widgets`, a branch, on `pod`. Id and SPIFFE ID follow from what is overridden. */
export function anAssignment(overrides: Partial<Assignment> = {}): Assignment {
  const {
    taskId = 42n,
    repository = "acme/widgets",
    jobKey = "build",
    trust = "branch",
    backend = "pod",
  } = overrides;
  return {
    id: assignmentId(taskId),
    taskId,
    backend,
    repository,
    jobKey,
    trust,
    spiffeId: overrides.spiffeId ?? jobSpiffeId(testTrustDomain, repository, jobKey, trust),
    ...overrides,
  };
}

/** The first attempt; its nonce is made of the attempt's number. */
export function anAttempt(overrides: Partial<Attempt> = {}): Attempt {
  const { number = 1 } = overrides;
  return { number, nonce: number.toString(16).padStart(32, "0"), ...overrides };
}

/** A queued record of `anAssignment()`, fetched at `testStart`, its message the first of the stream. */
export function aRecord(overrides: Partial<AssignmentRecord> = {}): AssignmentRecord {
  const { assignment = anAssignment() } = overrides;
  return { ...queuedRecord(assignment, { fetchedAt: testStart, sequence: 1 }), ...overrides };
}

/** What stands on the executor of the first attempt of `anAssignment()`. */
export function anExecutorMetadata(overrides: Partial<ExecutorMetadata> = {}): ExecutorMetadata {
  return {
    owner: "8f14e45f-ceea-467f-a0e6-c4e8e1c8a1b2",
    assignment: anAssignment(),
    attempt: anAttempt(),
    terminal: false,
    ...overrides,
  };
}

/** The context that Gitea sends with a task of job `build` after a push to `main` of `acme/widgets`. */
export function aTaskContext(overrides: TaskContext = {}): TaskContext {
  return {
    action: "",
    actor: "alice",
    base_ref: "",
    event: { ref: "refs/heads/main" },
    event_name: "push",
    head_ref: "",
    job: "build",
    ref: "refs/heads/main",
    ref_name: "main",
    ref_type: "branch",
    repository: "acme/widgets",
    repository_owner: "acme",
    run_attempt: "1",
    run_id: "7",
    sha: "0123456789abcdef0123456789abcdef01234567",
    workflow: "test.yml",
    ...overrides,
  };
}

/** Overrides of `aTaskContext` for pull request 5, its head in the given repository; null: that was deleted. */
export function aPullRequest(headRepository: string | null): TaskContext {
  const sha = "89abcdef0123456789abcdef0123456789abcdef";
  const own = headRepository === "acme/widgets";
  return {
    event_name: "pull_request",
    ref: "refs/pull/5/head",
    ref_name: "5",
    ref_type: "",
    base_ref: "main",
    head_ref: "topic",
    sha,
    event: {
      action: "opened",
      number: 5,
      pull_request: {
        number: 5,
        merged: false,
        merge_commit_sha: null,
        base: {
          label: "main",
          ref: "main",
          sha: "0123456789abcdef0123456789abcdef01234567",
          repo_id: 1,
          repo: { id: 1, full_name: "acme/widgets" },
        },
        head: {
          label: "topic",
          ref: headRepository === null ? "refs/pull/5/head" : "topic",
          sha,
          repo_id: headRepository === null ? -1 : own ? 1 : 2,
          repo: headRepository === null ? null : { id: own ? 1 : 2, full_name: headRepository },
        },
      },
    },
  };
}
