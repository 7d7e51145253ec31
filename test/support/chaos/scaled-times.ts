import { defaultTimes, type Times } from "../../../controller/assignment/times.ts";

const scale = 20;

/** A busy machine is not twenty times as fast, and a bootstrap says every 10 s that it lives, whatever the scale. */
const slower: Partial<Times> = { callMs: 10_000, beatMs: 2_000, silenceMs: 60_000 };

/** `RUNNER_TIMES` at 1:20, with some of them replaced; the queue's ack wait is four times `inProgressMs`. */
export function scaledTimes(replaced: Partial<Times> = {}): string {
  const scaled = Object.entries(defaultTimes).map(([name, ms]) => [name, Math.round(ms / scale)]);
  const times = { ...(Object.fromEntries(scaled) as Times), ...slower, ...replaced };
  return JSON.stringify({ ...times, ackWaitMs: 4 * times.inProgressMs });
}
