import { Code, ConnectError } from "@connectrpc/connect";
import { describeError } from "../platform/errors.ts";
import { GiteaError } from "../protocol/errors.ts";

/**
 * A call to Gitea on an executor's behalf. Only Gitea's word that the task is not ours any more is final
 * (`unauthenticated`); everything else passes, and the executor repeats its call (`unavailable`).
 */
export async function upstream<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    const gone = error instanceof GiteaError && error.fault === "gone";
    throw gone ? refusal(error, Code.Unauthenticated) : unavailable(error);
  }
}

/** Something that has to be durable before the answer; the executor repeats its call until it is. */
export async function stored<T>(write: Promise<T>): Promise<T> {
  try {
    return await write;
  } catch (error) {
    throw unavailable(error);
  }
}

/** Whether a refused call failed because Gitea does not know the task any more, or not as ours. */
export function saysGone(error: unknown): boolean {
  return error instanceof ConnectError && error.cause instanceof GiteaError && error.cause.fault === "gone";
}

/** What went wrong passes: the executor repeats its call. A refusal stays what it is. */
export function unavailable(error: unknown): ConnectError {
  return refusal(error, Code.Unavailable);
}

/** Gitea would take it: all tasks are one runner's in its eyes. */
export function foreignTask(taskId: bigint): ConnectError {
  return new ConnectError(`task ${taskId} is not this executor's`, Code.PermissionDenied);
}

function refusal(error: unknown, code: Code): ConnectError {
  return error instanceof ConnectError
    ? error
    : new ConnectError(describeError(error), code, undefined, undefined, error);
}
