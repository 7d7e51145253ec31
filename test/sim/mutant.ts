import type { Patch } from "../support/patch-source.ts";

/** A way to break the core: pieces of its source in place of others. Types are not checked any more. */
export type Mutant = {
  /** What the broken core does. */
  readonly name: string;
  /** One for a file. */
  readonly edits: readonly Patch[];
  /** Names the scenario, or the kept plan, that finds it; without one the first seeds do. */
  readonly scenario?: string;
};
