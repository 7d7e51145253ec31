import type { Plan } from "./plan.ts";
import { simulate, type Run } from "./simulate.ts";

/** More tries than this show nobody anything. */
const maxRuns = 150;

/** Leaves out of a failing plan what is not needed for it to fail, one incident after the other. */
export async function shrink(failing: Run): Promise<Run> {
  let smallest = failing;
  let runs = 0;
  const fails = async (incidents: Plan["incidents"]): Promise<boolean> => {
    runs++;
    const run = await simulate({ ...smallest.plan, incidents });
    if (run.violated === undefined) return false;
    smallest = run;
    return true;
  };
  for (let changed = true; changed;) {
    changed = false;
    // From the end: what comes after the fault is not needed in any case.
    for (const incident of smallest.plan.incidents.toReversed()) {
      if (runs >= maxRuns) return smallest;
      const without = smallest.plan.incidents.filter((other) => other !== incident);
      if (await fails(without)) changed = true;
    }
  }
  return smallest;
}
