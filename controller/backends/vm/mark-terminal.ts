import { terminalLabel } from "../../assignment/executor-metadata.ts";
import { addMetadata } from "./add-metadata.ts";
import type { VmWorld } from "./vm-world.ts";

/** Writes down on all sandboxes of an executor that its task is over. Of one that is gone it is remembered. */
export async function markTerminal(name: string, world: VmWorld, signal: AbortSignal): Promise<void> {
  const { known, reader } = world;
  await reader.refresh(signal);
  const mark = { [terminalLabel]: "true" };
  for (const { id, metadata, life } of known.of(name))
    if (life.isGone) known.noteAdded(id, mark);
    else if (metadata[terminalLabel] !== "true") await addMetadata(id, mark, world, signal);
}
