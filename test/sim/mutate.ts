import { registerHooks } from "node:module";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { mutantNamed } from "./mutants.ts";

/*
 * Preloaded (`node --import`) to run the simulation on a core that is broken on purpose: SIM_MUTANT names how. The
 * source is changed on its way into the process; no switch for it is in the product.
 */
const name = process.env["SIM_MUTANT"];
if (name !== undefined) {
  const { file, from, to } = mutantNamed(name);
  const root = new URL("../../", import.meta.url);
  const target = new URL(file, root).href;
  const source = readFileSync(fileURLToPath(target), "utf8");
  if (source.split(from).length !== 2)
    throw new Error(`mutant "${name}": its text must stand in ${file} once; the code has moved on`);
  registerHooks({
    load: (url, context, nextLoad) =>
      url === target
        ? { format: "module-typescript", shortCircuit: true, source: source.replace(from, () => to) }
        : nextLoad(url, context),
  });
}
