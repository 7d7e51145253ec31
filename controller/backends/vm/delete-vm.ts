import { removeSandbox } from "./remove-sandbox.ts";
import type { VmWorld } from "./vm-world.ts";

/**
 * Removes an executor with all of its sandboxes and its identity, that first. An identity that cannot be taken away does
 * not keep the VM, and is told of afterwards.
 */
export async function deleteVm(name: string, world: VmWorld, signal: AbortSignal): Promise<void> {
  const { known, reader } = world;
  // Before anything is asked of the server: its outage must leave nobody an identity.
  const [revoked] = await Promise.allSettled([world.identity.revoke(name, signal)]);
  signal.throwIfAborted();
  await reader.refresh(signal);
  const there = known.of(name);
  const sandboxes = there.length > 0 ? there : await reader.readOf(name, signal);
  await Promise.all(
    sandboxes.map(async ({ id, life }) => {
      const isDeleted = life.isGone && life.mayReturn !== true;
      known.forget(id, isDeleted || (await removeSandbox(id, world, signal)));
    }),
  );
  if (revoked?.status === "rejected") throw revoked.reason;
}
