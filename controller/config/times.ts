import { z } from "zod";
import { defaultTimes, type Times } from "../assignment/times.ts";
import { defaultLeaseTimes, type LeaseTimes } from "../lifecycle/lease.ts";
import { defaultStreamTimes, type StreamTimes } from "../queue/streams.ts";

/** The controller's own times, those of its streams and those of its Lease, in milliseconds. */
export type ConfiguredTimes = {
  readonly times: Times;
  readonly streamTimes: StreamTimes;
  readonly leaseTimes: LeaseTimes;
};

/** What `RUNNER_TIMES` may replace. */
const replaceable = {
  ...defaultTimes,
  ackWaitMs: defaultStreamTimes.ackWaitMs,
  leaseDurationMs: defaultLeaseTimes.durationMs,
  leaseRenewMs: defaultLeaseTimes.renewDeadlineMs,
  leaseRetryMs: defaultLeaseTimes.retryMs,
};
const names = Object.keys(replaceable);

/** What one of Node's timers can wait at most. */
const longestMs = 2 ** 31 - 1;
const timesSchema = z.partialRecord(z.enum(names), z.int().min(1).max(longestMs));

/** Gitea's limit for a task, which an operator may have changed there, in the place of the usual one. */
export function withEndless(
  { times, ...others }: ConfiguredTimes,
  seconds: number | undefined,
): ConfiguredTimes {
  return {
    times: seconds === undefined ? times : { ...times, endlessMs: seconds * 1000 },
    ...others,
  };
}

/**
 * All times, those in a JSON object by name in the place of the usual ones. Throws an Error that says which name
 * or value is wrong, and quotes nothing.
 */
export function parseTimes(text: string): ConfiguredTimes {
  const given = timesSchema.safeParse(jsonOf(text));
  if (!given.success) throw new Error(mistakeIn(given.error.issues));
  const { ackWaitMs, leaseDurationMs, leaseRenewMs, leaseRetryMs, ...times } = {
    ...replaceable,
    ...given.data,
  };
  // Else two would lead at a time, or nobody for long.
  if (leaseRenewMs >= leaseDurationMs || leaseRetryMs >= leaseRenewMs)
    throw new Error("leaseRetryMs must be shorter than leaseRenewMs, and that than leaseDurationMs");
  return {
    times,
    streamTimes: { ...defaultStreamTimes, ackWaitMs },
    leaseTimes: { durationMs: leaseDurationMs, renewDeadlineMs: leaseRenewMs, retryMs: leaseRetryMs },
  };
}

/** Undefined, which is no object, for what is no JSON. */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function mistakeIn(issues: readonly z.core.$ZodIssue[]): string {
  if (issues.some(({ code }) => code === "unrecognized_keys"))
    return `it may name ${names.join(", ")} and nothing else`;
  const wrong = names.filter((name) => issues.some(({ path }) => path[0] === name));
  if (wrong.length === 0) return "it is not a JSON object";
  return `of ${wrong.join(", ")}: not a whole number of milliseconds from 1 to ${longestMs}`;
}
