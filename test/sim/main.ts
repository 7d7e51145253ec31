import { parseArgs } from "node:util";
import { makeAbortsCheap } from "./cheap-aborts.ts";
import { describeError } from "../../controller/platform/errors.ts";
import { planOfSeed } from "./random-plan.ts";
import { describeRun, describeViolation } from "./report.ts";
import { play } from "./scenario.ts";
import { scenarioNamed } from "./scenarios.ts";
import { simulate } from "./simulate.ts";

const usage = `Usage: node test/sim/main.ts [options]

Runs the controller's core in a simulated world, once for each seed.

  --seeds N     how many seeds (default 2000)
  --from N      the first seed (default 1)
  --seed N      this seed alone, with its whole history
  --scenario S  the scenario of this name alone, with its whole history
  --stop N      ends after so many violations (default 5)
  --no-shrink   tells of a violation without looking for a smaller plan
  --quiet       a scenario's outcome without its history
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
    quiet: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

const say = (text: string) => process.stdout.write(`${text}\n`);

async function one(seed: number): Promise<boolean> {
  const run = await simulate(planOfSeed(seed), { keepHistory: true });
  for (const line of describeRun(run)) say(line);
  return run.violated === undefined;
}

async function named(name: string): Promise<boolean> {
  const scenario = scenarioNamed(name);
  if (!values.quiet)
    for (const line of describeRun(await simulate(scenario.plan, { keepHistory: true }))) say(line);
  try {
    await play(scenario);
    return true;
  } catch (error) {
    say(`violates: ${describeError(error)}`);
    return false;
  }
}

async function many(from: number, count: number): Promise<boolean> {
  makeAbortsCheap();
  let failed = 0;
  for (let seed = from; seed < from + count && failed < Number(values.stop); seed++) {
    const run = await simulate(planOfSeed(seed));
    if (run.violated === undefined) continue;
    failed++;
    say(`violates: ${run.violated} (seed ${seed})`);
    if (values.shrink) for (const line of await describeViolation(run)) say(line);
  }
  say(`${count} seeds from ${from}, ${failed} violate something`);
  return failed === 0;
}

async function whatIsAsked(): Promise<boolean> {
  if (values.scenario !== undefined) return named(values.scenario);
  if (values.seed !== undefined) return one(Number(values.seed));
  return many(Number(values.from), Number(values.seeds));
}

if (values.help) say(usage);
else process.exitCode = (await whatIsAsked()) ? 0 : 1;
