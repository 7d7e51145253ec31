import { sameAssignment } from "../../assignment/assignment.ts";
import { InvalidAssignmentError } from "../../assignment/errors.ts";
import type { ExecutorMetadata } from "../../assignment/executor-metadata.ts";
import { BackendError, type Executor } from "../backend.ts";
import { type ExecutorFile, metadataOf } from "./executor-file.ts";

/** The metadata in a file, or a terminal BackendError. */
export function validMetadata(name: string, file: ExecutorFile, trustDomain: string): ExecutorMetadata {
  try {
    return metadataOf(name, file, trustDomain);
  } catch (error) {
    if (!(error instanceof InvalidAssignmentError)) throw error;
    throw new BackendError("terminal", `the metadata of ${name} does not hold`, { cause: error });
  }
}

/**
 * The executor that a create found under its name. A terminal BackendError if it is not the wanted attempt, a
 * retryable one if it is but does not run: once it is deleted the name is free.
 */
export function existingExecutor(executor: Executor, wanted: ExecutorMetadata): Executor {
  const { name, metadata, state } = executor;
  if (!sameAttempt(metadata, wanted))
    throw new BackendError("terminal", `${name} is there already, for something else`);
  if (state.phase !== "running")
    throw new BackendError("retryable", `${name} is there already, but it does not run`);
  return executor;
}

function sameAttempt(a: ExecutorMetadata, b: ExecutorMetadata): boolean {
  return (
    sameAssignment(a.assignment, b.assignment) &&
    a.attempt.number === b.attempt.number &&
    a.attempt.nonce === b.attempt.nonce
  );
}
