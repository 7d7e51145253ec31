import { isAbortOf } from "../platform/signal.ts";
import { QueueUnavailableError } from "./errors.ts";

/** What a request to JetStream failed with, as the queue's callers know it: the signal's own abort passes as it is. */
export function fromJetStream(doing: string, error: unknown, signal: AbortSignal): unknown {
  if (isAbortOf(signal, error) || error instanceof QueueUnavailableError) return error;
  return new QueueUnavailableError(doing, { cause: error });
}
