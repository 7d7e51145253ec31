import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "mocha";
import { runChild } from "./child.ts";
import type { Mutant } from "./mutant.ts";
import { mutants } from "./mutants.ts";

/** So many seeds have to be enough to find a mutant that has no scenario. */
const seeds = 150;
const childCount = 2;
/** Neither its seeds nor its scenario take nearly as long. */
const deadlineMs = 120_000;

type Found = { readonly code: number; readonly lines: readonly string[] };

describe("the simulation finds a controller that", () => {
  const stop = new AbortController();
  const found = new Map<string, PromiseWithResolvers<Found>>();
  let cache: string;
  let running: Promise<unknown>;

  const run = async ({ name, scenario }: Mutant): Promise<Found> => {
    const lines: string[] = [];
    const args =
      scenario === undefined
        ? ["--seeds", String(seeds), "--stop", "1", "--no-shrink"]
        : ["--scenario", scenario, "--quiet"];
    const deadline = AbortSignal.any([stop.signal, AbortSignal.timeout(deadlineMs)]);
    const onLine = (line: string) => void lines.push(line);
    const code = await runChild({ program: "main.ts", args, mutant: name, cache, onLine }, deadline);
    return { code, lines };
  };
  const runAll = async (queue: Mutant[]) => {
    for (let mutant = queue.shift(); mutant !== undefined; mutant = queue.shift()) {
      const { resolve, reject } = found.get(mutant.name) ?? Promise.withResolvers<Found>();
      await run(mutant).then(resolve, reject);
    }
  };

  before(async () => {
    cache = await mkdtemp(join(tmpdir(), "sim-cache-"));
    for (const { name } of mutants) {
      const mine = Promise.withResolvers<Found>();
      mine.promise.catch(() => undefined);
      found.set(name, mine);
    }
    const queue = [...mutants];
    running = Promise.all(Array.from({ length: childCount }, () => runAll(queue)));
  });
  after(async () => {
    stop.abort();
    await running;
    await rm(cache, { recursive: true, force: true });
  });

  for (const { name } of mutants)
    it(name, async function () {
      this.timeout(0);
      const { code = 0, lines = [] } = (await found.get(name)?.promise) ?? {};
      assert.equal(code, 1, lines.join("\n"));
      // A child that could not even begin has found nothing.
      assert.ok(
        lines.some((line) => line.startsWith("violates: ")),
        lines.join("\n"),
      );
    });
});
