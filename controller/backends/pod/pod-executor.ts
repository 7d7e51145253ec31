import { sameAssignment } from "../../assignment/assignment.ts";
import { isBackendKind } from "../../assignment/backend-kind.ts";
import { InvalidAssignmentError } from "../../assignment/errors.ts";
import {
  backendLabel,
  type ExecutorMetadata,
  executorName,
  ownerLabel,
  parseExecutorMetadata,
} from "../../assignment/executor-metadata.ts";
import { BackendError, type Executor, type ExecutorState, type InvalidExecutor } from "../backend.ts";
import type { PodDocument } from "./pod-document.ts";

/** Whether a Pod is this owner's. One whose backend cannot be read is ours as well: it must be seen. */
export function belongsTo({ labels }: PodDocument, owner: string): boolean {
  const backend = labels[backendLabel] ?? "";
  return labels[ownerLabel] === owner && (backend === "pod" || !isBackendKind(backend));
}

export type ReadExecutor =
  | { readonly kind: "executor"; readonly executor: Executor }
  | { readonly kind: "invalid"; readonly invalid: InvalidExecutor };

/**
 * The executor that a Pod is, its metadata validated. `seenAt` stands in for the time of its creation where the API
 * gives none: an executor of unknown age is a young one, since old ones are deleted.
 */
export function executorOfPod(
  pod: PodDocument,
  state: ExecutorState,
  { trustDomain, seenAt }: { readonly trustDomain: string; readonly seenAt: number },
): ReadExecutor {
  const { name, labels, annotations, createdAt = seenAt } = pod;
  try {
    const metadata = parseExecutorMetadata(trustDomain, labels, annotations);
    const expected = executorName(metadata.assignment, metadata.attempt);
    if (name !== expected) throw new InvalidAssignmentError(`its metadata is that of ${expected}`);
    return { kind: "executor", executor: { name, metadata, state, createdAt } };
  } catch (error) {
    if (!(error instanceof InvalidAssignmentError)) throw error;
    return { kind: "invalid", invalid: { name, reason: error.message, createdAt } };
  }
}

/**
 * What a create makes of the Pod that it found under its name. A terminal BackendError if it is not the wanted
 * attempt, a retryable one if it is but has ended: once it is deleted the name is free.
 */
export function existingExecutor(found: ReadExecutor, wanted: ExecutorMetadata): Executor {
  if (found.kind === "invalid")
    throw new BackendError("terminal", `${found.invalid.name} is there already: ${found.invalid.reason}`);
  const { executor } = found;
  if (!sameAttempt(executor.metadata, wanted))
    throw new BackendError("terminal", `${executor.name} is there already, for something else`);
  if (executor.state.phase === "ended")
    throw new BackendError("retryable", `${executor.name} is there already, but it has ended`);
  return executor;
}

/** What is wrong with a Pod that has just been made; undefined if it is the executor that was asked for. */
export function notAsAsked(made: ReadExecutor, wanted: ExecutorMetadata): string | undefined {
  if (made.kind === "invalid") return made.invalid.reason;
  return sameAttempt(made.executor.metadata, wanted)
    ? undefined
    : "its labels are another owner's, assignment's or attempt's";
}

function sameAttempt(a: ExecutorMetadata, b: ExecutorMetadata): boolean {
  return (
    a.owner === b.owner &&
    sameAssignment(a.assignment, b.assignment) &&
    a.attempt.number === b.attempt.number &&
    a.attempt.nonce === b.attempt.nonce
  );
}
