import { defaultTimes } from "../../../controller/assignment/times.ts";

const scale = 20;

/** A busy machine is not twenty times as fast, and a bootstrap says every 10 s that it lives, whatever the scale. */
const slower: Readonly<Record<string, number>> = { callMs: 10_000, silenceMs: 60_000 };

/** `RUNNER_TIMES` at 1:20, with some of them replaced; the queue's ack wait is four times `inProgressMs`. */
export function scaledTimes(replaced: Readonly<Record<string, number>> = {}): string {
  const known = Object.entries(defaultTimes).map(([name, ms]) => [
    name,
    replaced[name] ?? slower[name] ?? Math.round(ms / scale),
  ]);
  const times = Object.fromEntries(known) as Record<keyof typeof defaultTimes, number>;
  return JSON.stringify({ ackWaitMs: 4 * times.inProgressMs, ...times });
}
