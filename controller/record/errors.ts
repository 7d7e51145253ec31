import { apiErrorCode, apiErrors } from "../platform/jetstream.ts";
import { isAbortOf } from "../platform/signal.ts";

/**
 * The records cannot be read or written now; the caller tries the same call again, which is safe even if a write
 * did arrive. `bucket-lost`: JetStream answers and has no such bucket, so every record is gone.
 */
export class RecordStoreUnavailableError extends Error {
  override readonly name = "RecordStoreUnavailableError";
  readonly reason: "unreachable" | "bucket-lost";

  constructor(reason: "unreachable" | "bucket-lost", message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** What stands under a key is no record: reported, and left for a person to look at. */
export class InvalidRecordError extends Error {
  override readonly name = "InvalidRecordError";
}

/** A report is sealed with a key that we do not have (yet): it may be read later. */
export class ReportKeyMissingError extends Error {
  override readonly name = "ReportKeyMissingError";
}

/** What a request to the bucket failed with, as the store's callers know it; the signal's own abort passes as it is. */
export function fromBucket(doing: string, error: unknown, signal: AbortSignal): unknown {
  if (isAbortOf(signal, error)) return error;
  if (error instanceof RecordStoreUnavailableError || error instanceof InvalidRecordError) return error;
  if (error instanceof ReportKeyMissingError) return error;
  const reason = apiErrorCode(error) === apiErrors.streamNotFound ? "bucket-lost" : "unreachable";
  return new RecordStoreUnavailableError(reason, doing, { cause: error });
}
