import { isBackendKind } from "../../assignment/backend-kind.ts";
import { sameAssignment } from "../../assignment/assignment.ts";
import { InvalidAssignmentError } from "../../assignment/errors.ts";
import {
  assignmentLabel,
  attemptLabel,
  backendLabel,
  type ExecutorMetadata,
  executorAnnotations,
  executorLabels,
  executorName,
  ownerLabel,
  parseExecutorMetadata,
  type Texts,
} from "../../assignment/executor-metadata.ts";
import { BackendError, type Executor, type ExecutorRequest } from "../backend.ts";
import { annotationLabels, annotationsIn } from "./annotation-labels.ts";

/** Our own times, which the server does not keep: when it was asked for, and by when it has to end. */
const askedAtLabel = "ci.ddupan.top/asked-at";
const deadlineAtLabel = "ci.ddupan.top/deadline-at";

/** The metadata of the sandbox that a request asks for. Throws InvalidAssignmentError if it does not fit. */
export function sandboxMetadata({ metadata, deadlineAt }: ExecutorRequest, now: number): Texts {
  return {
    ...executorLabels(metadata),
    ...annotationLabels(executorAnnotations(metadata)),
    [askedAtLabel]: String(Math.round(now)),
    [deadlineAtLabel]: String(Math.round(deadlineAt)),
  };
}

/** Whether a sandbox is this owner's. One whose backend cannot be read is ours as well: it must be seen. */
export function belongsTo(metadata: Texts, owner: string): boolean {
  const backend = metadata[backendLabel] ?? "";
  return metadata[ownerLabel] === owner && (backend === "vm" || !isBackendKind(backend));
}

/** What stands on a sandbox, as far as it can be read. Times in milliseconds since the epoch. */
export type SandboxReading = {
  readonly executor:
    | { readonly kind: "valid"; readonly name: string; readonly metadata: ExecutorMetadata }
    /** `name`: that of its executor, if at least this can be read. */
    | { readonly kind: "invalid"; readonly name?: string; readonly reason: string };
  readonly askedAt?: number;
  readonly deadlineAt?: number;
};

/** Reads the metadata of a sandbox, trusting none of it. */
export function readSandbox(metadata: Texts, trustDomain: string): SandboxReading {
  const askedAt = timeIn(metadata, askedAtLabel);
  const deadlineAt = timeIn(metadata, deadlineAtLabel);
  return {
    executor: readExecutor(metadata, trustDomain),
    ...(askedAt === undefined ? {} : { askedAt }),
    ...(deadlineAt === undefined ? {} : { deadlineAt }),
  };
}

function readExecutor(labels: Texts, trustDomain: string): SandboxReading["executor"] {
  try {
    const metadata = parseExecutorMetadata(trustDomain, labels, annotationsIn(labels));
    const name = executorName(metadata.assignment, metadata.attempt);
    return { kind: "valid", name, metadata };
  } catch (error) {
    if (!(error instanceof InvalidAssignmentError)) throw error;
    const name = nameIn(labels);
    return { kind: "invalid", reason: error.message, ...(name === undefined ? {} : { name }) };
  }
}

/** The labels alone tell it: whoever has the record of that attempt must not take its executor for gone. */
function nameIn(labels: Texts): string | undefined {
  const { [assignmentLabel]: id = "", [attemptLabel]: attempt = "" } = labels;
  const name = `${id}-${attempt}-${(labels["ci.ddupan.top/nonce"] ?? "").slice(0, 8)}`;
  return parts.test(name) ? name : undefined;
}

const parts = /^(gitea-task-[1-9][0-9]*)-([1-9][0-9]{0,8})-([0-9a-f]{8})$/;

/** What the sandboxes of an executor of that name have in common, for a list; undefined if it is no executor's name. */
export function filterFor(name: string, owner: string): Texts | undefined {
  const [, id, attempt] = parts.exec(name) ?? [];
  if (id === undefined || attempt === undefined) return undefined;
  return { [ownerLabel]: owner, [assignmentLabel]: id, [attemptLabel]: attempt };
}

function timeIn(metadata: Texts, key: string): number | undefined {
  const text = metadata[key] ?? "";
  return /^[0-9]{1,15}$/.test(text) ? Number(text) : undefined;
}

/**
 * What a create makes of the executor that it found. A terminal BackendError if it is not the wanted attempt, a retryable
 * one if it is but has ended.
 */
export function asWanted(found: Executor, wanted: ExecutorMetadata): Executor {
  if (!sameAttempt(found.metadata, wanted))
    throw new BackendError("terminal", `${found.name} is there already, for something else`);
  if (found.state.phase === "ended")
    throw new BackendError(
      "retryable",
      `${found.name} is there already, but it has ended: ${found.state.reason}`,
    );
  return found;
}

export function sameAttempt(a: ExecutorMetadata, b: ExecutorMetadata): boolean {
  return (
    a.owner === b.owner &&
    sameAssignment(a.assignment, b.assignment) &&
    a.attempt.number === b.attempt.number &&
    a.attempt.nonce === b.attempt.nonce
  );
}
