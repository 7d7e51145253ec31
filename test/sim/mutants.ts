import type { Mutant } from "./mutant.ts";
import { mutantsOfEnds } from "./mutants-of-ends.ts";
import { mutantsOfStarts } from "./mutants-of-starts.ts";
import { mutantsOfStores } from "./mutants-of-stores.ts";

/** What the simulation has to find out about. */
export const mutants: readonly Mutant[] = [...mutantsOfStarts, ...mutantsOfEnds, ...mutantsOfStores];

export function mutantNamed(name: string): Mutant {
  const mutant = mutants.find((one) => one.name === name);
  if (mutant === undefined) throw new Error(`there is no mutant "${name}"`);
  return mutant;
}
