import { describe, it } from "mocha";
import { mutants } from "../sim/mutants.ts";
import { patchedSource } from "../support/patch-source.ts";

/** What the simulation proves with them it says much later: here a line that has moved on is noticed at once. */
describe("a mutant of the simulation", () => {
  for (const { name, edits } of mutants)
    it(`breaks lines that are there: ${name}`, () => {
      for (const edit of edits) patchedSource(edit);
    });
});
