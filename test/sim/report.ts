import { simulate, type Run } from "./simulate.ts";
import { shrink } from "./shrink.ts";

/** Lines of a history that say enough of how it came to a violation. */
const lastLines = 60;

/** A run for people: what does not hold, what happened to the world, and what went on. */
export function describeRun({ plan, violated, history }: Run, lines = Infinity): readonly string[] {
  return [
    `seed ${plan.seed}: ${violated ?? "holds"}`,
    ...plan.incidents.map((incident) => `  ${JSON.stringify(incident)}`),
    ...history.slice(-lines).map((line) => `  ${line}`),
  ];
}

/** A violation for people: the smallest plan that has one, the end of its history, and how to see all of it. */
export async function describeViolation(failing: Run): Promise<readonly string[]> {
  const { plan } = await shrink(failing);
  const small = await simulate(plan, { keepHistory: true });
  const { seed } = failing.plan;
  return [
    `seed ${seed} violates: ${failing.violated ?? "nothing"}`,
    "made smaller:",
    ...describeRun(small, lastLines),
    `to see all of it: node test/sim/main.ts --seed ${seed}`,
  ];
}
