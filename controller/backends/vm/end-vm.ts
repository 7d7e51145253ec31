import type { FailureReason } from "../../assignment/failure-reasons.ts";
import { describeError } from "../../platform/errors.ts";
import { addMetadata } from "./add-metadata.ts";
import { killedForLabel, type KnownSandbox } from "./known-sandboxes.ts";
import { removeSandbox } from "./remove-sandbox.ts";
import type { VmWorld } from "./vm-world.ts";

/** Why we end a VM, and the name of that where it has one. */
export type EndReason = { readonly reason: string; readonly cause?: FailureReason };

/**
 * Ends all VMs of an executor. The server can only delete them, so that their end is known by memory; the reason is written
 * on them before, for whoever finds one that does not go, and for the controller that starts in between. Their identity is
 * taken away first, because a VM may run on for a moment. An executor that is gone or has ended is no error.
 */
export async function endVm(
  name: string,
  why: EndReason,
  world: VmWorld,
  signal: AbortSignal,
): Promise<void> {
  const alive = () => world.known.of(name).filter(isAlive);
  // Before anything is asked of the server: its outage must leave nobody an identity.
  const isRevoked = alive().length > 0;
  if (isRevoked) await revoke(name, world, signal);
  await world.reader.refresh(signal);
  const living = alive();
  if (!isRevoked && living.length > 0) await revoke(name, world, signal);
  await Promise.all(living.map((one) => endSandbox(one, why, world, signal)));
}

/** Ends one of several. Whether it was deleted by this call. */
export async function endSandbox(
  { id }: KnownSandbox,
  why: EndReason,
  world: VmWorld,
  signal: AbortSignal,
): Promise<boolean> {
  const { known, log } = world;
  try {
    await addMetadata(id, { [killedForLabel]: labelText(why.reason) }, world, signal);
  } catch (error) {
    signal.throwIfAborted();
    log.warn({ sandbox: id, error: describeError(error) }, "writing the reason on a sandbox failed");
  }
  const isDeleted = await removeSandbox(id, world, signal);
  known.noteEnded(id, { phase: "ended", ...why }, isDeleted);
  return isDeleted;
}

/** It is tried again when the executor is deleted. */
async function revoke(
  name: string,
  { identity, log }: Pick<VmWorld, "identity" | "log">,
  signal: AbortSignal,
): Promise<void> {
  try {
    await identity.revoke(name, signal);
  } catch (error) {
    signal.throwIfAborted();
    log.warn({ executor: name, error: describeError(error) }, "taking away an identity failed");
  }
}

function isAlive({ life }: KnownSandbox): boolean {
  return !life.isGone && life.state.phase !== "ended";
}

/** As much of a text as a label holds. */
export function labelText(text: string): string {
  return text
    .replaceAll(/[^A-Za-z0-9._-]+/g, "-")
    .slice(0, 63)
    .replaceAll(/^[^A-Za-z0-9]+|[^A-Za-z0-9]+$/g, "");
}
