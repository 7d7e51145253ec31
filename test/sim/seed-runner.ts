import { makeAbortsCheap } from "./cheap-aborts.ts";
import { planOfSeed } from "./random-plan.ts";
import { describeViolation } from "./report.ts";
import { simulate } from "./simulate.ts";

/** What became of a block of seeds. */
export type Block = {
  readonly seeds: number;
  /** For people, one for each seed that violates something. */
  readonly violations: readonly (readonly string[])[];
  /** Processor time, in milliseconds, the start of the process included. */
  readonly cpuMs: number;
};

/** More violations than this tell nobody more. */
const enough = 3;

/*
 * `node seed-runner.ts <first> <count>`: runs so many seeds and prints one line of JSON. A process of its own for each
 * block, because what waits in a simulated process that was killed waits for ever, and is never collected.
 */
const [first = 1, count = 1] = process.argv.slice(2).map(Number);
makeAbortsCheap();
const violations: (readonly string[])[] = [];
let seeds = 0;
while (seeds < count && violations.length < enough) {
  const run = await simulate(planOfSeed(first + seeds));
  if (run.violated !== undefined) violations.push(await describeViolation(run));
  seeds++;
}
const { user, system } = process.cpuUsage();
const block: Block = { seeds, violations, cpuMs: (user + system) / 1_000 };
process.stdout.write(`${JSON.stringify(block)}\n`);
