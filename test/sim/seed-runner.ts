import { makeAbortsCheap } from "./cheap-aborts.ts";
import { planOfSeed } from "./random-plan.ts";
import { describeViolation } from "./report.ts";
import { simulate } from "./simulate.ts";

/** What became of a block of seeds. */
export type Block = {
  readonly from: number;
  readonly seeds: number;
  /** For people, one for each seed that violates something. */
  readonly violations: readonly (readonly string[])[];
  /** Processor time that the block took, in milliseconds. */
  readonly cpuMs: number;
};

/** More violations than this tell nobody more. */
const enough = 3;

/*
 * `node seed-runner.ts <seeds of a block> <first seed of a block>...`: runs the blocks one after the other, and prints
 * one line of JSON for each.
 */
const [seeds = 1, ...blocks] = process.argv.slice(2).map(Number);
makeAbortsCheap();
for (const from of blocks) {
  const before = process.cpuUsage();
  const violations: (readonly string[])[] = [];
  for (let seed = from; seed < from + seeds && violations.length < enough; seed++) {
    const run = await simulate(planOfSeed(seed));
    if (run.violated !== undefined) violations.push(await describeViolation(run));
  }
  const { user, system } = process.cpuUsage(before);
  const block: Block = { from, seeds, violations, cpuMs: (user + system) / 1_000 };
  process.stdout.write(`${JSON.stringify(block)}\n`);
}
