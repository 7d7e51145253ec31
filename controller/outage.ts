import { QueueUnavailableError } from "./queue/errors.ts";
import { RecordStoreUnavailableError } from "./record/errors.ts";

/** Whether an error says that NATS is away or lacks something of ours: that passes, and is waited for. */
export function isOutage(error: unknown): boolean {
  return error instanceof QueueUnavailableError || error instanceof RecordStoreUnavailableError;
}
