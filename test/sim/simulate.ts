import { isOver, violatedAtEnd } from "./at-end.ts";
import { violatedIdle } from "./idle.ts";
import { scheduleIncidents } from "./incidents.ts";
import type { Plan } from "./plan.ts";
import { createWorld, type World } from "./world.ts";

export type Run = {
  readonly plan: Plan;
  /** What does not hold; undefined if all is well. */
  readonly violated: string | undefined;
  /** Empty unless asked for. */
  readonly history: readonly string[];
  /** How many things happened. */
  readonly events: number;
  /** Milliseconds of simulated time. */
  readonly tookMs: number;
  readonly world: World;
};

export type SimulateOptions = {
  readonly keepHistory?: boolean;
  /** Does something to the world after so many events: at a moment that has no name. */
  readonly interrupt?: { readonly afterEvents: number; readonly by: (world: World) => void };
};

/** Once nothing more happens to the world, everything comes to its end within this. */
const settleMs = 75 * 60_000;
/** A plan whose incidents do not come by then waits for something that does not happen. */
const longestMs = 4 * 60 * 60_000;

/** Runs a plan to its end, or to the first moment at which something does not hold. The same plan runs alike. */
export async function simulate(plan: Plan, options: SimulateOptions = {}): Promise<Run> {
  const { keepHistory = false, interrupt } = options;
  const world = createWorld({ ...plan, keepHistory });
  const { clock, startedAt, outrages, history } = world;
  const incidents = scheduleIncidents(world, plan);
  const jobs = plan.incidents.filter(({ do: what }) => what === "push").length;
  const broken = () => outrages.length > 0;
  const allOver = () => world.facts.jobs.size === jobs && isOver(world);
  const longest = startedAt + longestMs;
  if (interrupt !== undefined) {
    await clock.run(longest, () => clock.events >= interrupt.afterEvents);
    interrupt.by(world);
  }
  await clock.run(longest, () => broken() || incidents.left() === 0 || allOver());
  await clock.run(clock.now() + settleMs, () => broken() || allOver());
  let violated = outrages[0] ?? violatedAtEnd(world);
  if (violated === undefined && incidents.left() === 0) violated = (await violatedIdle(world)) ?? outrages[0];
  return {
    plan,
    violated,
    history: history.lines,
    events: clock.events,
    tookMs: clock.now() - startedAt,
    world,
  };
}
