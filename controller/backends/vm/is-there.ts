import { BackendError } from "../backend.ts";
import { belongsTo } from "./sandbox-executor.ts";
import type { VmWorld } from "./vm-world.ts";

/**
 * Whether the server has a sandbox of that executor, or may come to have one. Rejects as OpenSandboxApi does if it does not
 * say so: then nothing of the executor may be taken away.
 */
export async function isThere(
  name: string,
  {
    api,
    known,
    reader,
    asked,
    owner,
    pool,
  }: Pick<VmWorld, "api" | "known" | "reader" | "asked" | "owner" | "pool">,
  signal: AbortSignal,
): Promise<boolean> {
  if (asked.mayCome(name)) return true;
  // A list may lack what is there, but what is asked for by its id is told as it is.
  for (const { id } of known.of(name)) {
    const found = await api.get(id, signal);
    if (found !== undefined && belongsTo(found.metadata, owner)) return true;
  }
  const found = await reader.readOf(name, signal);
  if (found.some(({ life }) => !life.isGone)) return true;
  // A server that looks into another namespace has no pool either, and its word on sandboxes is none.
  if ((await api.pool(pool, signal)) === undefined)
    throw new BackendError("retryable", `there is no pool ${pool}, so that nothing is known of ${name}`);
  return false;
}
