import type { Texts } from "../../../controller/assignment/executor-metadata.ts";
import { systemClock } from "../../../controller/platform/clock.ts";
import { allocationFinalizer, type BatchSandbox, type SandboxResources } from "./sandbox-resources.ts";
import type { PlayedPools } from "./under-test.ts";

const askedMs = 50_000;
const lookMs = 50;
const mostPlaces = 10;
/** Of a VM that is nowhere. */
const ip = "10.0.0.7";
const { signal } = new AbortController();

/** The hands of the contract suite on the custom resources of a real server. */
export function createPlayedPools(resources: SandboxResources): PlayedPools {
  const hold: PlayedPools["hold"] = (id) => resources.setFinalizers(id, [allocationFinalizer], signal);
  const give = async (id: string, ready: 0 | 1, phase: string | null) => {
    const { pool = "none" } = (await resources.get(id, signal)) ?? {};
    await hold(id);
    await resources.allocate(id, { pool, name: `${pool}-${id.slice(0, 5)}`, ip }, signal);
    await resources.setStatus(id, { phase, allocated: 1, ready }, signal);
  };
  const fits = ({ labels }: BatchSandbox, metadata: Texts) =>
    Object.entries(metadata).every(([key, value]) => labels[key] === value);
  return {
    setPool: (name, places) => resources.setPool(name, places?.total ?? mostPlaces, places, signal),
    removePool: (name) => resources.removePool(name, signal),
    asked: async (metadata) => {
      const late = AbortSignal.timeout(askedMs);
      for (;;) {
        const found = (await resources.list(late)).find((sandbox) => fits(sandbox, metadata));
        if (found !== undefined) return found.id;
        await systemClock.sleep(lookMs, late);
      }
    },
    isThere: async (id) => (await resources.get(id, signal)) !== undefined,
    give: (id) => give(id, 1, "Succeed"),
    giveUnready: (id) => give(id, 0, null),
    setFull: (id, isFull) => {
      const full = { type: "PoolAllocationPending", message: "the pool has no VM left" } as const;
      const status = { phase: "Pending", allocated: 0, ready: 0 } as const;
      return resources.setStatus(id, isFull ? { ...status, condition: full } : status, signal);
    },
    fail: (id, message) =>
      resources.setStatus(
        id,
        { phase: "Failed", allocated: 1, ready: 0, condition: { type: "PodFailed", message } },
        signal,
      ),
    end: (id) => resources.setStatus(id, { phase: "Pending", allocated: 1, ready: 0 }, signal),
    confuse: (id) => resources.setStatus(id, { phase: "Pondering", allocated: 1, ready: 0 }, signal),
    label: (id, label) => resources.label(id, label, signal),
    hold,
    release: (id) => resources.setFinalizers(id, [], signal),
    remove: async (id) => {
      await resources.remove(id, signal);
      await resources.setFinalizers(id, [], signal);
    },
  };
}
