import { describeError } from "../../platform/errors.ts";
import { BackendError } from "../backend.ts";
import type { KnownSandbox } from "./known-sandboxes.ts";
import type { VmWorld } from "./vm-world.ts";

/**
 * Looks for the VM of an attempt that may still come, until it may not any more and a list made after that shows none:
 * then undefined. Rejects with a retryable BackendError if the server did not say so; the next call goes on.
 */
export async function searchVm(
  name: string,
  { reader, asked, times, clock, steady }: VmWorld,
  signal: AbortSignal,
): Promise<KnownSandbox | undefined> {
  for (;;) {
    const state = asked.of(name, true);
    const isOver = state.kind !== "open" || steady() >= state.until;
    try {
      const [found] = await reader.readOf(name, signal);
      if (found !== undefined || isOver) return found;
    } catch (error) {
      signal.throwIfAborted();
      if (isOver)
        throw new BackendError("retryable", `the VM ${name} may exist: ${describeError(error)}`, {
          cause: error,
        });
    }
    await clock.sleep(times.searchMs, signal);
  }
}
