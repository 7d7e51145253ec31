/** Counts by name, over a closed list: what never occurred is there with 0. */
export type Tally<Name extends string> = {
  count(name: Name): void;
  all(): Readonly<Record<string, number>>;
};

export function createTally<Name extends string>(names: readonly Name[]): Tally<Name> {
  const counts = new Map<string, number>(names.map((name) => [name, 0]));
  return {
    count: (name) => void counts.set(name, (counts.get(name) ?? 0) + 1),
    all: () => Object.fromEntries(counts),
  };
}
