import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "mocha";
import { describeError } from "../../controller/platform/errors.ts";
import { runChild } from "./child.ts";
import type { Block } from "./seed-runner.ts";

/** How many seeds, and which is the first: any others by hand. */
const count = Number(process.env["SIM_SEEDS"] ?? 2_000);
const first = Number(process.env["SIM_FROM"] ?? 1);
const blockSeeds = 100;
const childCount = 2;
/** For a seed, on a machine that has other things to do. */
const patienceMs = 2_000;

describe("a simulated controller through whatever a seed has in store", () => {
  const blocks = Array.from(
    { length: Math.ceil(count / blockSeeds) },
    (_, index) => first + index * blockSeeds,
  );
  const waiting = new Map(blocks.map((from) => [from, Promise.withResolvers<Block>()]));
  const done: Block[] = [];
  const stop = new AbortController();
  let cache: string;
  let startedAt: number;
  let running: Promise<unknown>;

  /** Each takes every second block, so that they come to an end together. */
  const runEvery = async (offset: number) => {
    const mine = blocks.filter((_, index) => index % childCount === offset);
    const lines: string[] = [];
    const onLine = (line: string) => {
      lines.push(line);
      if (!line.startsWith("{")) return;
      const block = JSON.parse(line) as Block;
      done.push(block);
      waiting.get(block.from)?.resolve(block);
    };
    const args = [blockSeeds, ...mine].map(String);
    const deadline = AbortSignal.any([stop.signal, AbortSignal.timeout(count * patienceMs)]);
    const ended = await runChild({ program: "seed-runner.ts", args, cache, onLine }, deadline).catch(
      describeError,
    );
    const error = new Error(`the child has ended with ${ended}: ${lines.slice(-20).join("\n")}`);
    for (const from of mine) waiting.get(from)?.reject(error);
  };

  before(async () => {
    cache = await mkdtemp(join(tmpdir(), "sim-cache-"));
    startedAt = performance.now();
    for (const { promise } of waiting.values()) promise.catch(() => undefined);
    running = Promise.allSettled(Array.from({ length: childCount }, (_, offset) => runEvery(offset)));
  });
  after(async () => {
    stop.abort();
    await running;
    await rm(cache, { recursive: true, force: true });
    const seeds = done.length * blockSeeds;
    const cpuMs = done.reduce((sum, block) => sum + block.cpuMs, 0);
    const minutes = (performance.now() - startedAt) / 60_000;
    process.stdout.write(
      `    ${seeds} seeds, ${Math.round(seeds / minutes)} a minute, ${Math.round(cpuMs / seeds)} ms of CPU each\n`,
    );
  });

  for (const from of blocks)
    it(`holds what it must with the seeds ${from} to ${from + blockSeeds - 1}`, async function () {
      // Behind the blocks before it in the same child.
      this.timeout(0);
      const block = await waiting.get(from)?.promise;
      assert.equal(block?.violations.map((lines) => lines.join("\n")).join("\n\n"), "");
    });
});
