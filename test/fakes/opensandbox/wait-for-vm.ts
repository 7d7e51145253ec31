import type { Clock } from "../../../controller/platform/clock.ts";
import { coded, type Refused } from "./answer.ts";
import type { Store } from "./store.ts";

export type CreateLimits = {
  /** How long a create waits for its VM. */
  readonly createMs: number;
  /** How long of that the pool may be full. */
  readonly poolMs: number;
};

/**
 * What a create does until its VM is there. Undefined: it is. It waits the whole time for a sandbox that is being deleted,
 * and hears nothing of whoever had asked for it. Rejects once `life`, the server's, is over.
 */
export async function waitForVm(
  store: Store,
  clock: Clock,
  id: string,
  { createMs, poolMs }: CreateLimits,
  life: AbortSignal,
): Promise<Refused | undefined> {
  const end = clock.now() + createMs;
  let fullMs = 0;
  for (;;) {
    const sandbox = store.get(id);
    const kind = sandbox?.isDeleting === false ? sandbox.vm.kind : "none";
    if (kind === "ready" || kind === "unready") return undefined;
    if (kind === "failed" || kind === "task failed")
      return coded(500, "KUBERNETES::POD_FAILED", `Sandbox '${id}' failed before it was ready`);
    const leftMs = end - clock.now();
    if (leftMs <= 0)
      return coded(
        504,
        "KUBERNETES::POD_READY_TIMEOUT",
        `Timeout waiting for sandbox '${id}' after ${createMs / 1000} seconds`,
      );
    const isFull = sandbox?.isFull === true;
    if (isFull && fullMs >= poolMs)
      return coded(429, "KUBERNETES::POOL_CAPACITY_EXHAUSTED", `No capacity in the pool for '${id}'`, {
        "Retry-After": String(Math.ceil(poolMs / 1000)),
      });
    const before = clock.now();
    await store.changed(life, Math.min(leftMs, isFull ? poolMs - fullMs : leftMs));
    if (isFull) fullMs += clock.now() - before;
  }
}
