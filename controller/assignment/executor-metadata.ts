import type { Attempt } from "../identity/capability.ts";
import { IdentityError } from "../identity/errors.ts";
import { isJobKey, jobSpiffeId, type Trust } from "../identity/job-identity.ts";
import { type Assignment, taskIdOf } from "./assignment.ts";
import { isBackendKind } from "./backend-kind.ts";
import { InvalidAssignmentError } from "./errors.ts";

/** What stands on every executor, whatever its backend: enough to know it again after a restart, and no secret. */
export type ExecutorMetadata = {
  /** `GITEA_RUNNER_UUID` of the controller that made it. */
  readonly owner: string;
  readonly assignment: Assignment;
  readonly attempt: Attempt;
  /** Gitea has accepted the task's result. */
  readonly terminal: boolean;
};

export type Texts = Readonly<Record<string, string>>;

const prefix = "ci.ddupan.top/";

export const ownerLabel = `${prefix}owner`;
export const assignmentLabel = `${prefix}assignment-id`;
export const attemptLabel = `${prefix}attempt`;
export const backendLabel = `${prefix}backend`;
export const terminalLabel = `${prefix}terminal`;

/** Labels: what lists are filtered by. Values are legal label values of Kubernetes. */
export function executorLabels(metadata: ExecutorMetadata): Texts {
  const { assignment, attempt } = metadata;
  return {
    [`${prefix}runner`]: "true",
    [ownerLabel]: metadata.owner,
    [assignmentLabel]: assignment.id,
    [`${prefix}task-id`]: String(assignment.taskId),
    [backendLabel]: assignment.backend,
    [attemptLabel]: String(attempt.number),
    [`${prefix}nonce`]: attempt.nonce,
    ...(metadata.terminal ? { [terminalLabel]: "true" } : {}),
  };
}

/** Annotations: what does not fit a label. */
export function executorAnnotations({ assignment }: ExecutorMetadata): Texts {
  return {
    [`${prefix}repository`]: assignment.repository,
    [`${prefix}job-key`]: assignment.jobKey,
    [`${prefix}spiffe-id`]: assignment.spiffeId,
    [`${prefix}trust`]: assignment.trust,
  };
}

/** The name of an attempt's executor and of its registration entry. */
export function executorName(assignment: Assignment, attempt: Attempt): string {
  return `${assignment.id}-${attempt.number}-${attempt.nonce.slice(0, 8)}`;
}

/**
 * Reads metadata back, trusting none of it: every field must have its form, and the SPIFFE ID must be the one
 * that repository, job key and trust give. Throws InvalidAssignmentError naming the label or annotation.
 */
export function parseExecutorMetadata(
  trustDomain: string,
  labels: Texts,
  annotations: Texts,
): ExecutorMetadata {
  matching(labels, "runner", /^true$/);
  const id = matching(labels, "assignment-id", /^/);
  const taskId = taskIdOf(id);
  if (taskId === undefined) throw wrong("assignment-id", id);
  const taskIdText = matching(labels, "task-id", /^/);
  if (taskIdText !== String(taskId))
    throw wrong("task-id", taskIdText, ", which is not that of assignment-id");
  const backend = matching(labels, "backend", /^/);
  if (!isBackendKind(backend)) throw wrong("backend", backend);
  const trust = matching(annotations, "trust", /^(branch|fork)$/) === "fork" ? "fork" : "branch";
  const repository = matching(annotations, "repository", /^[^/]+\/[^/]+$/);
  const jobKey = matching(annotations, "job-key", /^/);
  if (!isJobKey(jobKey)) throw wrong("job-key", jobKey);
  const spiffeId = matching(annotations, "spiffe-id", /^spiffe:\/\//);
  if (spiffeId !== recomputed(trustDomain, repository, jobKey, trust))
    throw wrong("spiffe-id", spiffeId, ", which is not that of repository, job-key and trust");
  return {
    owner: matching(labels, "owner", /^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/),
    assignment: { id, taskId, backend, repository, jobKey, spiffeId, trust },
    attempt: {
      number: Number(matching(labels, "attempt", /^[1-9][0-9]{0,8}$/)),
      nonce: matching(labels, "nonce", /^[0-9a-f]{32}$/),
    },
    terminal: labels[terminalLabel] !== undefined && matching(labels, "terminal", /^true$/) === "true",
  };
}

function recomputed(trustDomain: string, repository: string, jobKey: string, trust: Trust): string {
  try {
    return jobSpiffeId(trustDomain, repository, jobKey, trust);
  } catch (error) {
    if (!(error instanceof IdentityError)) throw error;
    throw new InvalidAssignmentError(`${prefix}repository: ${error.message}`, { cause: error });
  }
}

function matching(texts: Texts, key: string, form: RegExp): string {
  const value = texts[prefix + key];
  if (value === undefined || !form.test(value)) throw wrong(key, value);
  return value;
}

function wrong(key: string, value: string | undefined, why = ""): InvalidAssignmentError {
  return new InvalidAssignmentError(
    `${prefix}${key} is ${value === undefined ? "missing" : JSON.stringify(value.slice(0, 80))}${why}`,
  );
}
