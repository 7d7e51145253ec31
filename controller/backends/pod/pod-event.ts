import { z } from "zod";
import { timeOf } from "../../kubernetes/time-of.ts";

/** What the scheduler or a kubelet told of a Pod, which stands nowhere in the Pod itself. */
export type PodEvent = { readonly reason: string; readonly message: string };

const text = z.string().optional().catch(undefined);
const time = z.string().nullish().catch(undefined);
const event = z
  .object({
    involvedObject: z.object({ name: text, uid: text }).optional().catch(undefined),
    reason: text,
    message: text,
    firstTimestamp: time,
    lastTimestamp: time,
    eventTime: time,
    series: z.object({ lastObservedTime: time }).optional().catch(undefined),
  })
  .catch({});

/** Makes less of an event: nothing of it is read but what is left then. */
export function trimPodEvent(value: unknown): unknown {
  return event.parse(value);
}

/** Which Pod it is about. */
export function aboutPod(value: unknown): { readonly name: string; readonly uid: string } {
  const { name = "", uid = "" } = event.parse(value).involvedObject ?? {};
  return { name, uid };
}

/**
 * One event, and when it last happened at the latest, in milliseconds since the epoch; 0 if it does not say. A kubelet
 * tells whole seconds and the scheduler microseconds, and what a kubelet does comes after it was given the Pod: a
 * whole second counts as its end. Total: what is no event tells nothing.
 */
export function parsePodEvent(value: unknown): { readonly at: number; readonly event: PodEvent } {
  const read = event.parse(value);
  const at =
    timeOf(read.series?.lastObservedTime ?? undefined) ??
    endOfSecond(read.lastTimestamp) ??
    timeOf(read.eventTime ?? undefined) ??
    endOfSecond(read.firstTimestamp) ??
    0;
  return { at, event: { reason: read.reason ?? "", message: read.message ?? "" } };
}

function endOfSecond(told: string | null | undefined): number | undefined {
  const at = timeOf(told ?? undefined);
  return at === undefined ? undefined : at + 999;
}

/**
 * The events of one Pod, oldest first by when they last happened; those without a time keep their place before the
 * others.
 */
export function parsePodEvents(values: readonly unknown[]): readonly PodEvent[] {
  return values
    .map(parsePodEvent)
    .toSorted((a, b) => a.at - b.at)
    .map((told) => told.event);
}
