import type { Texts } from "../../assignment/executor-metadata.ts";
import { BackendError } from "../backend.ts";
import type { VmWorld } from "./vm-world.ts";

/**
 * Adds metadata that was not there, and makes sure by the answer that it is now. One change of a sandbox at a time: the
 * server writes all of its labels anew, so that two would undo each other; by the same reason nothing is ever changed or
 * taken away. A sandbox that is gone is no error.
 */
export async function addMetadata(
  id: string,
  metadata: Texts,
  { api, known, changes }: Pick<VmWorld, "api" | "known" | "changes">,
  signal: AbortSignal,
): Promise<void> {
  await changes.run(id, async () => {
    signal.throwIfAborted();
    const answer = await api.addMetadata(id, metadata, signal);
    if (answer === undefined) return;
    const lacking = Object.entries(metadata).filter(([key, value]) => answer.metadata[key] !== value);
    if (lacking.length > 0)
      throw new BackendError(
        "retryable",
        `sandbox ${id} has not taken ${lacking.map(([key]) => key).join(", ")}`,
      );
    known.note(answer, true);
    known.noteAdded(id, metadata);
  });
}
