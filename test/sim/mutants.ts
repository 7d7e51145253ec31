/** A way to break the core: one piece of its source in place of another. */
export type Mutant = {
  /** What the broken core does. */
  readonly name: string;
  /** From the repository's root. */
  readonly file: string;
  /** Stands there exactly once. */
  readonly from: string;
  readonly to: string;
};

/** What the simulation has to find out about. */
export const mutants: readonly Mutant[] = [];

export function mutantNamed(name: string): Mutant {
  const mutant = mutants.find((one) => one.name === name);
  if (mutant === undefined) throw new Error(`there is no mutant "${name}"`);
  return mutant;
}
