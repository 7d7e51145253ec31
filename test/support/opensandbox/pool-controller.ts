import type { KubernetesApi } from "../../../controller/kubernetes/kubernetes-api.ts";
import { createWatchedList, defaultWatchedListTimes } from "../../../controller/kubernetes/watched-list.ts";
import type { Clock } from "../../../controller/platform/clock.ts";
import { describeError } from "../../../controller/platform/errors.ts";
import type { Logger } from "../../../controller/platform/logger.ts";
import { advancePlace, newPlace, type Place } from "./pool-place.ts";
import { type BatchSandbox, readBatchSandbox, type SandboxResources } from "./sandbox-resources.ts";
import type { PlayedVm, VmHost } from "./vm-host.ts";

/** How often the task reaches a VM: at least once is all that OpenSandbox promises, and without its executor never. */
export type Injection = "never" | "once" | "twice";

export type PoolControllerOptions = {
  readonly resources: SandboxResources;
  /** For the watch. */
  readonly api: Pick<KubernetesApi, "call" | "watch">;
  readonly pool: string;
  readonly capacity: number;
  readonly host: VmHost;
  readonly clock: Clock;
  readonly log: Logger;
};

/** Plays OpenSandbox's controller for one pool. */
export type PoolController = AsyncDisposable & {
  readonly pool: string;
  /** The VM of a sandbox, also after its end, until the sandbox is gone. */
  vmOf(id: string): PlayedVm | undefined;
  /** The sandboxes that have a place. */
  held(): readonly string[];
  /** More places or fewer; who has one keeps it. */
  setCapacity(capacity: number): Promise<void>;
  /** For sandboxes that get their place from now on. */
  setInjection(injection: Injection): void;
  /** While true nobody gets a place, and nobody is told why. */
  holdPlaces(isHeld: boolean): void;
  /** The next sandbox's VM fails before it is ready, with that message. */
  failNext(message: string): void;
  /** While true no deletion ends, and no VM of a deleted sandbox. */
  holdDeletions(isHeld: boolean): void;
};

const lookMs = 250;
const counts: Readonly<Record<Injection, number>> = { never: 0, once: 1, twice: 2 };
const watchTimes = { ...defaultWatchedListTimes, retry: { firstMs: 100, maxMs: 1_000 } };

/**
 * Makes the pool and gives its places to sandboxes that ask for them, in the order in which they were made: an ended VM is told
 * as phase `Pending`, a sandbox is deleted when its time is over, and its place is free again when it is gone. What
 * fails is tried again. Disposing of it ends all VMs.
 */
export async function startPoolController(
  options: PoolControllerOptions,
  signal: AbortSignal,
): Promise<PoolController> {
  const { resources, api, pool, host, clock, log } = options;
  const over = new AbortController();
  const places = new Map<string, Place>();
  const working = new Map<string, Promise<void>>();
  const waiting = new Set<string>();
  let { capacity } = options;
  let injection: Injection = "once";
  let failure: string | undefined;
  const isHeld = { places: false, deletions: false };
  let written = "";
  let wake = Promise.withResolvers<void>();
  const look = () => wake.resolve();
  const world = { pool, resources, host, log, look };

  const tellPool = async (abort: AbortSignal) => {
    const allocated = places.size;
    const status = {
      total: Math.max(capacity, allocated),
      allocated,
      available: Math.max(0, capacity - allocated),
    };
    const said = JSON.stringify([capacity, status]);
    if (said === written) return;
    await resources.setPool(pool, capacity, status, abort);
    written = said;
  };

  const release = async (id: string, abort: AbortSignal) => {
    await places.get(id)?.vm?.stop();
    await resources.setFinalizers(id, [], abort);
    places.delete(id);
    log.info({ sandbox: id }, "a sandbox is gone");
    look();
  };

  const takePlace = (id: string): Place | undefined => {
    if (places.size >= capacity) return undefined;
    const place = newPlace(counts[injection], failure);
    failure = undefined;
    places.set(id, place);
    waiting.delete(id);
    return place;
  };

  const handle = async (sandbox: BatchSandbox, abort: AbortSignal): Promise<void> => {
    const { id, isDeleted, expiresAt = Infinity } = sandbox;
    if (isDeleted) {
      if (!isHeld.deletions) await release(id, abort);
      return;
    }
    if (expiresAt <= clock.now()) return await resources.remove(id, abort);
    if (isHeld.places && !places.has(id)) return;
    const place = places.get(id) ?? takePlace(id);
    if (place !== undefined) return await advancePlace(sandbox, place, world, abort);
    if (waiting.has(id)) return;
    const condition = { type: "PoolAllocationPending", message: `pool ${pool} has no VM left` } as const;
    await resources.setStatus(id, { phase: "Pending", allocated: 0, ready: 0, condition }, abort);
    waiting.add(id);
  };

  const begin = (id: string, work: () => Promise<void>) => {
    if (working.has(id)) return;
    const done = work()
      .catch((error: unknown) => {
        if (!over.signal.aborted)
          log.warn({ sandbox: id, error: describeError(error) }, "a sandbox is tried again");
      })
      .finally(() => working.delete(id));
    working.set(id, done);
  };

  const list = createWatchedList({
    api,
    path: resources.path,
    clock,
    random: Math.random,
    log,
    times: watchTimes,
  });
  const pass = async (abort: AbortSignal) => {
    const sandboxes = list
      .documents()
      .map(readBatchSandbox)
      .filter((sandbox) => sandbox.pool === pool)
      .toSorted((a, b) => a.createdAt - b.createdAt || a.id.localeCompare(b.id));
    for (const sandbox of sandboxes) begin(sandbox.id, () => handle(sandbox, abort));
    const there = new Set(sandboxes.map(({ id }) => id));
    for (const id of places.keys()) if (!there.has(id)) begin(id, () => release(id, abort));
    await tellPool(abort).catch((error: unknown) => {
      if (!abort.aborted) log.warn({ error: describeError(error) }, "the pool's status is tried again");
    });
  };
  const passes = async (abort: AbortSignal) => {
    while (!abort.aborted) {
      wake = Promise.withResolvers();
      await pass(abort);
      const rested = new AbortController();
      const rest = clock.sleep(lookMs, AbortSignal.any([abort, rested.signal])).catch(() => undefined);
      await Promise.race([wake.promise, rest]);
      rested.abort();
    }
  };

  await tellPool(signal);
  const stopListening = list.onChange(look);
  const listing = list.run(over.signal).catch(() => undefined);
  const passing = passes(over.signal);
  return {
    pool,
    vmOf: (id) => places.get(id)?.vm,
    held: () => [...places.keys()],
    setCapacity: async (next) => {
      capacity = next;
      await tellPool(over.signal);
      look();
    },
    setInjection: (next) => {
      injection = next;
    },
    failNext: (message) => {
      failure = message;
    },
    holdPlaces: (next) => {
      isHeld.places = next;
      look();
    },
    holdDeletions: (next) => {
      isHeld.deletions = next;
      look();
    },
    [Symbol.asyncDispose]: async () => {
      over.abort(new Error("the pool's controller has ended"));
      stopListening();
      await Promise.all([listing, passing, ...working.values()]);
      await Promise.all([...places.values()].map(async ({ vm }) => await vm?.stop()));
    },
  };
}
