import { patchSource } from "../support/patch-source.ts";
import { mutantNamed } from "./mutants.ts";

/*
 * Preloaded (`node --import`) to run the simulation on a core that is broken on purpose: SIM_MUTANT names how.
 */
const name = process.env["SIM_MUTANT"];
if (name !== undefined) for (const edit of mutantNamed(name).edits) patchSource(edit);
