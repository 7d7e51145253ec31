import type { OpenSandboxApi } from "../../opensandbox/opensandbox-api.ts";
import type { SteadyClock } from "../../platform/clock.ts";
import { BackendError } from "../backend.ts";
import type { VmTimes } from "./vm-options.ts";

/** How many VMs may be asked for at the same time. */
export type PoolPlaces = {
  /**
   * Does the work, which asks for one VM, if one may be asked for now; settles as it does. Otherwise rejects with a retryable BackendError of reason `no_vm` if the pool has
   * none to give, without a reason if the pool does not exist; otherwise as OpenSandboxApi does.
   */
  within<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T>;
  /** The pool had no place for a VM: it is left alone for so long. */
  full(retryAfterMs: number | undefined): void;
};

export type PoolPlacesOptions = {
  readonly api: Pick<OpenSandboxApi, "pool">;
  readonly pool: string;
  readonly times: Pick<VmTimes, "noPlaceMs">;
  readonly steady: SteadyClock;
};

/** No server means longer than that. */
const longestMs = 5 * 60_000;

/**
 * No more creates at once than the pool has places that are ready: who waits at the server has no turn there, and what is
 * given up takes a VM with it. One may always wait, because a pool may make VMs only when somebody waits for one.
 */
export function createPoolPlaces({ api, pool, times, steady }: PoolPlacesOptions): PoolPlaces {
  let underWay = 0;
  let closedUntil = -Infinity;
  const none = (why: string) => new BackendError("retryable", `the pool ${pool} ${why}`, { reason: "no_vm" });

  return {
    within: async (work, signal) => {
      const ms = closedUntil - steady();
      if (ms > 0)
        throw none(`has said that it has no place, and is asked again in ${Math.ceil(ms / 1000)} s`);
      const found = await api.pool(pool, signal);
      if (found === undefined)
        throw new BackendError(
          "retryable",
          `the pool ${pool} does not exist: OPENSANDBOX_POOL, or the pool, or the server's namespace is wrong`,
        );
      const ready = found.places?.available ?? 0;
      if (underWay >= Math.max(1, ready))
        throw none(`has ${ready} places that are ready, and ${underWay} VMs are asked for already`);
      underWay++;
      try {
        return await work();
      } finally {
        underWay--;
      }
    },
    full: (retryAfterMs = times.noPlaceMs) => {
      closedUntil = steady() + Math.min(retryAfterMs, longestMs);
    },
  };
}
