/** Calls by name. */
export type Calls = {
  count(name: string): void;
  /** All since the start. */
  total(): ReadonlyMap<string, number>;
};

export function createCalls(): Calls {
  const counts = new Map<string, number>();
  return {
    count: (name) => void counts.set(name, (counts.get(name) ?? 0) + 1),
    total: () => new Map(counts),
  };
}

/** What came in between, divided: `create pods 1.00, watch events 0.05`. */
export function difference(
  before: ReadonlyMap<string, number>,
  after: ReadonlyMap<string, number>,
  divisor: number,
): string {
  const each = [...after]
    .map(([name, count]) => [name, count - (before.get(name) ?? 0)] as const)
    .filter(([, count]) => count > 0)
    .toSorted(([one], [other]) => one.localeCompare(other));
  return each.map(([name, count]) => `${name} ${(count / divisor).toFixed(2)}`).join(", ");
}
