import { parseArgs } from "node:util";
import { makeAbortsCheap } from "./cheap-aborts.ts";
import { planOfSeed } from "./random-plan.ts";
import { play } from "./scenario.ts";
import { scenarioNamed } from "./scenarios.ts";
import { shrink } from "./shrink.ts";
import { simulate, type Run } from "./simulate.ts";

const usage = `Usage: node test/sim/main.ts [options]

Runs the controller's core in a simulated world, once for each seed.

  --seeds N     how many seeds (default 2000)
  --from N      the first seed (default 1)
  --seed N      this seed alone, with its whole history
  --scenario S  the scenario of this name alone, with its whole history
  --stop N      ends after so many violations (default 5)
  --no-shrink   tells of a violation without looking for a smaller plan
  --help        this text
`;

const { values } = parseArgs({
  allowNegative: true,
  options: {
    seeds: { type: "string", default: "2000" },
    from: { type: "string", default: "1" },
    seed: { type: "string" },
    scenario: { type: "string" },
    stop: { type: "string", default: "5" },
    shrink: { type: "boolean", default: true },
    help: { type: "boolean", default: false },
  },
});

const say = (text: string) => process.stdout.write(`${text}\n`);

function tell({ plan, violated, history }: Run, lines: number): void {
  say(`seed ${plan.seed}: ${violated ?? "holds"}`);
  for (const incident of plan.incidents) say(`  ${JSON.stringify(incident)}`);
  for (const line of history.slice(-lines)) say(`  ${line}`);
}

async function one(seed: number): Promise<number> {
  const run = await simulate(planOfSeed(seed), { keepHistory: true });
  tell(run, Infinity);
  return run.violated === undefined ? 0 : 1;
}

async function named(name: string): Promise<number> {
  const scenario = scenarioNamed(name);
  tell(await simulate(scenario.plan, { keepHistory: true }), Infinity);
  await play(scenario);
  return 0;
}

async function many(from: number, count: number): Promise<number> {
  makeAbortsCheap();
  let failed = 0;
  for (let seed = from; seed < from + count && failed < Number(values.stop); seed++) {
    const run = await simulate(planOfSeed(seed));
    if (run.violated === undefined) continue;
    failed++;
    if (!values.shrink) {
      say(`seed ${seed}: ${run.violated}`);
      continue;
    }
    const { plan } = await shrink(run);
    tell(await simulate(plan, { keepHistory: true }), 100);
  }
  say(`${count} seeds from ${from}, ${failed} failed`);
  return failed === 0 ? 0 : 1;
}

if (values.help) say(usage);
else if (values.scenario !== undefined) process.exitCode = await named(values.scenario);
else if (values.seed !== undefined) process.exitCode = await one(Number(values.seed));
else process.exitCode = await many(Number(values.from), Number(values.seeds));
