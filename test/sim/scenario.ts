import assert from "node:assert/strict";
import type { BackendKind } from "../../controller/assignment/backend-kind.ts";
import type { Shown } from "../fakes/fake-gitea-model.ts";
import type { JobFacts } from "./facts.ts";
import type { Incident, Plan, When } from "./plan.ts";
import { simulate, type Run } from "./simulate.ts";
import type { SimJob } from "./sim-runner.ts";

/** A course of events with a name, and exactly what is to come of it. All invariants hold besides. */
export type Scenario = {
  /** A sentence on what is shown. */
  readonly name: string;
  readonly plan: Plan;
  /** Throws an AssertionError for what is not as it should be. */
  readonly check: (jobs: (number: number) => JobFacts, run: Run) => void;
};

/** Runs it to its end. Throws with what does not hold; the run's history is of use then. */
export async function play(scenario: Scenario, keepHistory = false): Promise<Run> {
  const run = await simulate(scenario.plan, { keepHistory });
  assert.equal(run.violated, undefined);
  scenario.check((number) => jobOf(run, number), run);
  return run;
}

export function jobOf({ world }: Run, number: number): JobFacts {
  const job = world.facts.jobs.get(number);
  if (job === undefined) throw new Error(`there is no job ${number}`);
  return job;
}

/** One Pod at a time, unless told otherwise. */
export function planOf(incidents: readonly Incident[], pods = 1): Plan {
  return { seed: 1, capacity: { pod: pods, vm: 1 }, incidents };
}

/** A job of one step, 20 s long unless told otherwise. */
export function push(
  job: number,
  at: When,
  options: Partial<SimJob> & { readonly ms?: number; readonly backend?: BackendKind } = {},
): Incident {
  const { ms = 20_000, steps = [{ ms, rows: 4 }], postMs = 1_000, backend = "pod" } = options;
  return { at, do: "push", job, backend, work: { steps, postMs } };
}

/** So long after a point in a job's life. */
export function after(job: number, moment: Exclude<When, number>["after"], ms = 0): When {
  return { after: moment, job, ms };
}

/** What Gitea shows, how many executors there were for it, and that it ran at most once. */
export function ended({ job, executors, runs }: JobFacts, over: Shown, attempts = 1): void {
  assert.equal(job.over, over);
  assert.equal(executors.size, attempts, "executors");
  assert.equal(runs.length, over === "success" ? 1 : Math.min(1, runs.length), "runs");
}

export const seconds = 1_000;
export const minutes = 60_000;
