import { scheduleIncidents, settleMs } from "./incidents.ts";
import { createWatch, isOver, violatedAtEnd } from "./invariants.ts";
import { incidentMs, planOf, type Plan } from "./plan.ts";
import { createPrng } from "./prng.ts";
import { createWorld } from "./world.ts";

export type Run = {
  readonly plan: Plan;
  /** What does not hold; undefined if all is well. */
  readonly violated: string | undefined;
  readonly history: readonly string[];
  readonly events: number;
  /** Milliseconds of simulated time. */
  readonly tookMs: number;
};

/** Runs a plan to its end, or to the first moment at which something does not hold. The same plan runs alike. */
export async function simulate(plan: Plan): Promise<Run> {
  const world = createWorld(plan);
  const { clock, startedAt } = world;
  const { leader } = scheduleIncidents(world, plan);
  const watch = createWatch(world, plan);
  let violated: string | undefined;
  const broken = () => (violated = watch()) !== undefined;
  await clock.run(startedAt + incidentMs, broken);
  const quiet = () => broken() || isOver(world);
  if (violated === undefined) await clock.run(startedAt + incidentMs + settleMs, quiet);
  violated ??= violatedAtEnd(world, plan, leader());
  return {
    plan,
    violated,
    history: world.history,
    events: clock.events,
    tookMs: clock.now() - startedAt,
  };
}

/** What a seed stands for. */
export function planOfSeed(seed: number): Plan {
  return planOf(seed, createPrng(seed).fork("plan"));
}

/** Leaves out of a failing plan what is not needed for it to fail, one incident after the other. */
export async function shrink(failing: Run, maxRuns = 200): Promise<Run> {
  let smallest = failing;
  let runs = 0;
  for (let changed = true; changed;) {
    changed = false;
    for (const incident of smallest.plan.incidents) {
      if (++runs > maxRuns) return smallest;
      const incidents = smallest.plan.incidents.filter((other) => other !== incident);
      const run = await simulate({ ...smallest.plan, incidents });
      if (run.violated === undefined) continue;
      smallest = run;
      changed = true;
      break;
    }
  }
  return smallest;
}
