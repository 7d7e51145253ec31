import { BackendError } from "../backend.ts";
import { belongsTo } from "./sandbox-executor.ts";
import type { VmWorld } from "./vm-world.ts";

/** The server may forget what it has just said of one. */
const absences = 2;

/**
 * Deletes a sandbox of ours and resolves when the server has said twice that there is none. Its VM may take a moment longer
 * to end. Whether it was deleted by this call. One that has become somebody else's is a terminal BackendError, one that does not go in time a retryable one.
 */
export async function removeSandbox(
  id: string,
  {
    api,
    known,
    owner,
    times,
    clock,
    steady,
  }: Pick<VmWorld, "api" | "known" | "owner" | "times" | "clock" | "steady">,
  signal: AbortSignal,
): Promise<boolean> {
  const end = steady() + times.goneMs;
  let absent = 0;
  let isAsked = false;
  let isDeleted = false;
  for (let looks = 0; ; looks++) {
    const found = await api.get(id, signal);
    if (found === undefined) absent++;
    else {
      absent = 0;
      known.note(found, true);
      if (!belongsTo(found.metadata, owner))
        throw new BackendError("terminal", `sandbox ${id} is not ours: it has another owner or backend`);
      if (!isAsked) {
        isDeleted = await api.delete(id, signal);
        isAsked = true;
        continue;
      }
    }
    if (absent === absences) return isDeleted;
    if (steady() >= end) throw new BackendError("retryable", `sandbox ${id} was deleted, and is still there`);
    const pauseMs = absent > 0 ? times.goneEveryMs : times.goneEveryMs * 2 ** Math.min(10, looks);
    await clock.sleep(Math.min(pauseMs, times.pollMs), signal);
  }
}
