import assert from "node:assert/strict";
import { after, before, describe, it } from "mocha";
import { runChild } from "./child.ts";
import { createPool } from "./pool.ts";
import type { Block } from "./seed-runner.ts";

/** How many seeds, and which is the first: any others by hand. */
const count = Number(process.env["SIM_SEEDS"] ?? 2_000);
const first = Number(process.env["SIM_FROM"] ?? 1);
const blockSeeds = 100;
/** A block takes about ten seconds of one processor, which may have other things to do as well. */
const deadlineMs = 600_000;

describe("a simulated controller through whatever a seed has in store", () => {
  const blocks = Array.from(
    { length: Math.ceil(count / blockSeeds) },
    (_, index) => first + index * blockSeeds,
  );
  const pool = createPool<number, Block>(blocks);
  const done: Block[] = [];
  let startedAt: number;

  before(async () => {
    startedAt = performance.now();
    await pool.start(async (from, cache, signal) => {
      const lines: string[] = [];
      const args = [from, blockSeeds].map(String);
      const deadline = AbortSignal.any([signal, AbortSignal.timeout(deadlineMs)]);
      const onLine = (line: string) => void lines.push(line);
      const code = await runChild({ program: "seed-runner.ts", args, cache, onLine }, deadline);
      const last = lines.at(-1) ?? "";
      if (code !== 0 || !last.startsWith("{")) throw new Error(`it ended with ${code}: ${lines.join("\n")}`);
      const block = JSON.parse(last) as Block;
      done.push(block);
      return block;
    });
  });
  after(async () => {
    await pool.end();
    const seeds = done.reduce((sum, block) => sum + block.seeds, 0);
    const cpuMs = done.reduce((sum, block) => sum + block.cpuMs, 0);
    const minutes = (performance.now() - startedAt) / 60_000;
    const figures = [
      `${seeds} seeds`,
      `${Math.round(seeds / minutes)} a minute`,
      `${Math.round(cpuMs / seeds)} ms of CPU each`,
    ];
    process.stdout.write(`    ${figures.join(", ")}\n`);
  });

  for (const from of blocks)
    it(`holds what it must with the seeds ${from} to ${from + blockSeeds - 1}`, async function () {
      // Its process has a deadline, and may wait for those of other blocks.
      this.timeout(0);
      const { violations } = await pool.result(from);
      if (violations.length > 0) assert.fail(violations.map((lines) => lines.join("\n")).join("\n\n"));
    });
});
