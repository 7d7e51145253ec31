import { z } from "zod";
import { timeOf } from "./pod-document.ts";

/** What the scheduler or a kubelet told of a Pod, which stands nowhere in the Pod itself. */
export type PodEvent = { readonly reason: string; readonly message: string };

const text = z.string().optional().catch(undefined);
const time = z.string().nullish().catch(undefined);
const event = z
  .object({
    reason: text,
    message: text,
    firstTimestamp: time,
    lastTimestamp: time,
    eventTime: time,
    series: z.object({ lastObservedTime: time }).optional().catch(undefined),
  })
  .catch({});

/**
 * The events of one Pod, oldest first by when they last happened; those without a time keep their place before the
 * others. Total: what is no event tells nothing.
 */
export function parsePodEvents(values: readonly unknown[]): readonly PodEvent[] {
  return values
    .map((value) => event.parse(value))
    .map((read) => ({
      at:
        timeOf(read.series?.lastObservedTime ?? undefined) ??
        timeOf(read.lastTimestamp ?? undefined) ??
        timeOf(read.eventTime ?? undefined) ??
        timeOf(read.firstTimestamp ?? undefined) ??
        0,
      event: { reason: read.reason ?? "", message: read.message ?? "" },
    }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ event: told }) => told);
}
