import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { mutantNamed } from "./mutants.ts";

/*
 * Preloaded (`node --import`) to run the simulation on a core that is broken on purpose: SIM_MUTANT names how. The
 * source is changed on its way into the process; no switch for it is in the product.
 */
const name = process.env["SIM_MUTANT"];
if (name !== undefined) {
  const root = new URL("../../", import.meta.url);
  const sources = new Map<string, string>();
  for (const { file, from, to } of mutantNamed(name).edits) {
    const url = new URL(file, root);
    const source = sources.get(url.href) ?? readFileSync(url, "utf8");
    if (source.split(from).length !== 2)
      throw new Error(`mutant "${name}": its text must stand in ${file} once; the code has moved on`);
    sources.set(
      url.href,
      source.replace(from, () => to),
    );
  }
  registerHooks({
    load: (url, context, nextLoad) => {
      const source = sources.get(url);
      return source === undefined
        ? nextLoad(url, context)
        : { format: "module-typescript", shortCircuit: true, source };
    },
  });
}
