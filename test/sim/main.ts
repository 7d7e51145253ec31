import { parseArgs } from "node:util";
import { planOfSeed, shrink, simulate, type Run } from "./simulate.ts";

const usage = `Usage: npm run test:sim -- [options]

Runs the controller's core in a simulated world, once for each seed.

  --seeds N     how many seeds (default 2000)
  --from N      the first seed (default 1)
  --seed N      this seed alone, with its whole history
  --help        this text
`;

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "2000" },
    from: { type: "string", default: "1" },
    seed: { type: "string" },
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
  const run = await simulate(planOfSeed(seed));
  tell(run, Infinity);
  return run.violated === undefined ? 0 : 1;
}

async function many(from: number, count: number): Promise<number> {
  let failed = 0;
  for (let seed = from; seed < from + count; seed++) {
    const run = await simulate(planOfSeed(seed));
    if (run.violated === undefined) continue;
    failed++;
    tell(await shrink(run), 80);
    if (failed >= 5) break;
  }
  say(`${count} seeds from ${from}, ${failed} failed`);
  return failed === 0 ? 0 : 1;
}

if (values.help) say(usage);
else
  process.exitCode =
    values.seed === undefined
      ? await many(Number(values.from), Number(values.seeds))
      : await one(Number(values.seed));
