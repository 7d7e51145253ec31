import type { Times } from "../assignment/times.ts";
import type { Clock } from "../platform/clock.ts";
import type { Delivery } from "./delivery.ts";

/** How a look at a delivery ended: for good, or to be looked at again after this many milliseconds. */
export type Look = { readonly againMs?: number };

/** From this delivery on a message waits in hand: the queue gives it up at the thousandth, and with it the job. */
const lastHandBack = 500;

/**
 * Holds a delivery as long as it is looked at, telling the queue so, and hands it back for the next look. At the stop
 * it is handed back, whatever it waits for.
 */
export function createHoldDelivery(
  look: (delivery: Delivery, signal: AbortSignal) => Promise<Look>,
  { inProgressMs }: Pick<Times, "inProgressMs">,
  clock: Clock,
) {
  return async (delivery: Delivery, signal: AbortSignal): Promise<void> => {
    const done = new AbortController();
    const keeping = keepInProgress(delivery, clock, inProgressMs, done.signal);
    try {
      for (;;) {
        const { againMs } = await look(delivery, signal);
        if (againMs === undefined) return;
        if (delivery.deliveryCount >= lastHandBack) await clock.sleep(againMs, signal).catch(() => undefined);
        if (delivery.deliveryCount >= lastHandBack && !signal.aborted) continue;
        delivery.retryLater(againMs);
        return;
      }
    } finally {
      done.abort();
      await keeping;
    }
  };
}

async function keepInProgress(
  delivery: Delivery,
  clock: Clock,
  everyMs: number,
  done: AbortSignal,
): Promise<void> {
  while (!done.aborted) {
    await clock.sleep(everyMs, done).catch(() => undefined);
    if (!done.aborted) delivery.inProgress();
  }
}
