/** A way to break the core: pieces of its source in place of others. */
export type Mutant = {
  /** What the broken core does. */
  readonly name: string;
  readonly edits: readonly Edit[];
  /** Names the scenario that finds it, where the seeds of a test take too long. */
  readonly scenario?: string;
};

export type Edit = {
  /** From the repository's root. */
  readonly file: string;
  /** Stands there exactly once. */
  readonly from: string;
  /** Types are not checked any more. */
  readonly to: string;
};
