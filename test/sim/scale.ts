import { defaultTimes, type Times } from "../../controller/assignment/times.ts";
import {
  defaultTimes as bootstrapTimes,
  type Times as BootstrapTimes,
} from "../../controller/bootstrap/times.ts";

/** Simulated time runs in the proportions of the real one, so many times shorter: what waits is cheap, events are not. */
export const scale = 10;

/** The controller's table of times. */
export const simTimes: Times = scaled(defaultTimes);

/** The bootstrap's. */
export const simBootstrapTimes: BootstrapTimes = scaled(bootstrapTimes);

/** Gitea's own limits, as they are set where nobody has changed them, and JetStream's. */
export const simLimits = {
  zombieMs: (10 * 60_000) / scale,
  endlessMs: defaultTimes.endlessMs / scale,
  sweepMs: 60_000 / scale,
  ackWaitMs: (4 * defaultTimes.inProgressMs) / scale,
  duplicateWindowMs: (60 * 60_000) / scale,
};

function scaled<T extends Readonly<Record<string, number>>>(times: T): T {
  return Object.fromEntries(Object.entries(times).map(([name, ms]) => [name, ms / scale])) as T;
}
