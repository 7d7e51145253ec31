import { isAbortOf } from "../platform/signal.ts";
import { BackendError } from "./backend.ts";

/** Does it, telling what it was if it fails: nothing that an API server says of our calls is said for ever. */
export async function asBackend<T>(doing: string, work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  try {
    return await work();
  } catch (error) {
    if (isAbortOf(signal, error) || error instanceof BackendError) throw error;
    throw new BackendError("retryable", doing, { cause: error });
  }
}
