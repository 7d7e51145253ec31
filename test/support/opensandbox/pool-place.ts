import type { Logger } from "../../../controller/platform/logger.ts";
import {
  allocationFinalizer,
  type BatchSandbox,
  type SandboxResources,
  taskFinalizer,
} from "./sandbox-resources.ts";
import type { PlayedVm, VmHost } from "./vm-host.ts";

/** A place of a pool, and how far its sandbox has come. */
export type Place = {
  /** How often the task is to reach the VM. */
  readonly injections: number;
  /** Why its VM is not to become ready. */
  readonly failure: string | undefined;
  vm: PlayedVm | undefined;
  isGiven: boolean;
  injected: number;
  isEndTold: boolean;
};

export type PlaceWorld = {
  readonly pool: string;
  readonly resources: SandboxResources;
  readonly host: VmHost;
  readonly log: Logger;
  /** Something has changed. */
  readonly look: () => void;
};

export function newPlace(injections: number, failure: string | undefined): Place {
  return { injections, failure, vm: undefined, isGiven: false, injected: 0, isEndTold: false };
}

/** Does what is due for a sandbox that has a place. What fails is done by the next call. */
export async function advancePlace(
  sandbox: BatchSandbox,
  place: Place,
  world: PlaceWorld,
  signal: AbortSignal,
): Promise<void> {
  if (!place.isGiven) {
    await give(sandbox, place, world, signal);
    place.isGiven = true;
  }
  const { vm, injections } = place;
  if (vm === undefined) return;
  for (; place.injected < injections; place.injected++) if (sandbox.task) await vm.run(sandbox.task);
  if (!vm.hasEnded() || place.isEndTold) return;
  await world.resources.setStatus(sandbox.id, { phase: "Pending", allocated: 1, ready: 0 }, signal);
  place.isEndTold = true;
  world.log.info({ sandbox: sandbox.id }, "the vm of a sandbox has ended");
}

async function give(
  { id }: BatchSandbox,
  place: Place,
  { pool, resources, host, log, look }: PlaceWorld,
  signal: AbortSignal,
): Promise<void> {
  await resources.setFinalizers(id, [allocationFinalizer, taskFinalizer], signal);
  if (place.failure !== undefined) {
    // Without an address: that alone counts as a VM, and the server would answer before it hears of the failure.
    const condition = { type: "PodFailed", message: place.failure } as const;
    await resources.setStatus(id, { phase: "Failed", allocated: 1, ready: 0, condition }, signal);
    log.info({ sandbox: id }, "the vm of a sandbox has failed");
    return;
  }
  place.vm ??= await host.start(`${pool}-${id.slice(0, 8)}`, look, signal);
  await resources.allocate(id, { pool, name: place.vm.name, ip: place.vm.ip }, signal);
  await resources.setStatus(id, { phase: "Succeed", allocated: 1, ready: 1 }, signal);
  log.info({ sandbox: id }, "a sandbox has a vm");
}
