import { Code, ConnectError } from "@connectrpc/connect";
import type { Random } from "../platform/backoff.ts";

const retryDelayMs = 1000;

/**
 * Whether the Workload API will answer the same call the same way for ever: we asked wrongly, or it does not know
 * the call. Everything else is tried again, whatever its code: a denial means "no entry matches yet", and a socket
 * that is missing or an agent that was killed arrive as `internal`.
 */
export function isFinal(error: unknown): boolean {
  return (
    error instanceof ConnectError &&
    (error.code === Code.InvalidArgument || error.code === Code.Unimplemented)
  );
}

/** Milliseconds until the next try, 500 to 1000: flat, because a new entry arrives within seconds. */
export function nextRetryMs(random: Random): number {
  return retryDelayMs * (0.5 + random() / 2);
}
