import assert from "node:assert/strict";
import { after, before, describe, it } from "mocha";
import { runChild } from "./child.ts";
import type { Mutant } from "./mutant.ts";
import { mutants } from "./mutants.ts";
import { createPool } from "./pool.ts";

/** So many seeds have to be enough to find a mutant that has no scenario. */
const seeds = 150;
/** Neither its seeds nor its scenario take nearly as long. */
const deadlineMs = 300_000;

type Found = { readonly code: number; readonly lines: readonly string[] };

describe("the simulation finds a controller that", () => {
  const pool = createPool<Mutant, Found>(mutants);

  before(async () => {
    await pool.start(async ({ name, scenario }, cache, signal) => {
      const lines: string[] = [];
      const args =
        scenario === undefined
          ? ["--seeds", String(seeds), "--stop", "1", "--no-shrink"]
          : ["--scenario", scenario, "--quiet"];
      const deadline = AbortSignal.any([signal, AbortSignal.timeout(deadlineMs)]);
      const onLine = (line: string) => void lines.push(line);
      const code = await runChild({ program: "main.ts", args, mutant: name, cache, onLine }, deadline);
      return { code, lines };
    });
  });
  after(() => pool.end());

  for (const mutant of mutants)
    it(mutant.name, async function () {
      // Its process has a deadline, and may wait for those of other mutants.
      this.timeout(0);
      const { code, lines } = await pool.result(mutant);
      assert.equal(code, 1, lines.join("\n"));
      // A child that could not even begin has found nothing.
      const found = lines.some((line) => line.startsWith("violates: "));
      assert.ok(found, lines.join("\n"));
    });
});
