import { describeError } from "../../platform/errors.ts";
import { OpenSandboxError } from "../../opensandbox/opensandbox-api.ts";
import { BackendError } from "../backend.ts";

/** A create that came to nothing. `nothingMade`: that is sure, so that it may be asked for again. */
export type CreateFailure = { readonly nothingMade: boolean; readonly error: BackendError };

/**
 * What a failed create means. Without a reason it is the backend's trouble and not the job's: nothing can be made while
 * the key is wrong or the pool does not exist.
 */
export function createFailure(doing: string, cause: unknown): CreateFailure {
  const trouble = cause instanceof OpenSandboxError ? cause.trouble : "outage";
  const words = `${doing}: ${describeError(cause)}`;
  switch (trouble) {
    case "unauthorized":
    case "no_pool":
      return { nothingMade: true, error: new BackendError("retryable", words, { cause }) };
    case "no_capacity":
      return { nothingMade: true, error: new BackendError("retryable", words, { cause, reason: "no_vm" }) };
    case "vm_failed":
      return {
        nothingMade: true,
        error: new BackendError("terminal", words, { cause, reason: "start_failed" }),
      };
    case "refused":
      return {
        nothingMade: true,
        error: new BackendError("terminal", words, { cause, reason: "config_error" }),
      };
    case "outage":
      return { nothingMade: false, error: new BackendError("retryable", words, { cause }) };
    default:
      return trouble satisfies never;
  }
}
