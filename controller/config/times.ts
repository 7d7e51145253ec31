import { z } from "zod";
import { defaultTimes, type Times } from "../assignment/times.ts";
import { defaultStreamTimes, type StreamTimes } from "../queue/streams.ts";

/** The controller's own times and those of its streams, in milliseconds. */
export type ConfiguredTimes = { readonly times: Times; readonly streamTimes: StreamTimes };

/** What `RUNNER_TIMES` may replace. */
const replaceable = { ...defaultTimes, ackWaitMs: defaultStreamTimes.ackWaitMs };
const names = Object.keys(replaceable);

/** What one of Node's timers can wait at most. */
const longestMs = 2 ** 31 - 1;
const timesSchema = z.partialRecord(z.enum(names), z.int().min(1).max(longestMs));

/** Gitea's limit for a task, which an operator may have changed there, in the place of the usual one. */
export function withEndless(
  { times, streamTimes }: ConfiguredTimes,
  seconds: number | undefined,
): ConfiguredTimes {
  return {
    times: seconds === undefined ? times : { ...times, endlessMs: seconds * 1000 },
    streamTimes,
  };
}

/**
 * All times, those in a JSON object by name in the place of the usual ones. Throws an Error that says which name
 * or value is wrong, and quotes nothing.
 */
export function parseTimes(text: string): ConfiguredTimes {
  const given = timesSchema.safeParse(jsonOf(text));
  if (!given.success) throw new Error(mistakeIn(given.error.issues));
  const { ackWaitMs, ...times } = { ...replaceable, ...given.data };
  return { times, streamTimes: { ...defaultStreamTimes, ackWaitMs } };
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
