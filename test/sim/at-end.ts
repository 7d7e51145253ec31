import { maxAttempts } from "../../controller/assignment/times.ts";
import { violatedEnd } from "./job-end.ts";
import { violatedCancel, violatedStartFailure } from "./promptness.ts";
import type { World } from "./world.ts";

/** Whether everything has come to an end. */
export function isOver({ facts, clusters, bucket, stream }: World): boolean {
  return (
    [...facts.jobs.values()].every(({ job }) => job.over !== undefined) &&
    Object.values(clusters).every(({ machines, pending }) => machines.size === 0 && pending === 0) &&
    bucket.keys.length === 0 &&
    stream.after(0).length === 0
  );
}

/** What must hold when the world has been well for long enough. */
export function violatedAtEnd(world: World): string | undefined {
  const { facts, troubles, leadership, clusters, bucket, stream } = world;
  const failure = leadership.failure();
  if (failure !== undefined) return `a controller failed: ${failure}`;
  for (const job of facts.jobs.values()) {
    const violated =
      violatedEnd(job, troubles) ??
      violatedCancel(job, troubles) ??
      violatedStartFailure(job, troubles) ??
      tooMany(job.executors.size, job.forgotten.record);
    if (violated !== undefined) return `job ${job.number}: ${violated}`;
  }
  const machines = Object.values(clusters).flatMap((cluster) => [...cluster.machines.keys()]);
  if (machines.length > 0) return `I4: left behind: ${machines.join(", ")}`;
  if (bucket.keys.length > 0) return `records are left: ${bucket.keys.join(", ")}`;
  const messages = stream.after(0).map(({ sequence }) => sequence);
  if (messages.length > 0) return `messages are left: ${messages.join(", ")}`;
  return undefined;
}

/** Attempts are counted in the record. */
function tooMany(attempts: number, forgotten: boolean): string | undefined {
  return attempts <= maxAttempts || forgotten ? undefined : `it had ${attempts} attempts`;
}
