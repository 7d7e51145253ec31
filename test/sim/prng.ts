/** A sequence of choices that a seed decides. */
export type Prng = {
  /** In [0, 1). */
  next(): number;
  /** A whole number from `low` to `high`, both included. */
  between(low: number, high: number): number;
  chance(probability: number): boolean;
  /** One of a list that is not empty. */
  pick<T>(list: readonly T[]): T;
  /** `count` lower-case hexadecimal digits. */
  hex(count: number): string;
  /** A sequence of its own: what it is asked does not change what this one answers. */
  fork(label: string): Prng;
};

/** Two seeds that differ in a bit give sequences that have nothing in common (Mulberry32 on a mixed seed). */
export function createPrng(seed: number): Prng {
  let state = mixed(seed);
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), 1 | state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
  const between = (low: number, high: number) => low + Math.floor(next() * (high - low + 1));
  return {
    next,
    between,
    chance: (probability) => next() < probability,
    pick: (list) => {
      const one = list[between(0, list.length - 1)];
      if (one === undefined) throw new Error("nothing to pick from");
      return one;
    },
    hex: (count) => Array.from({ length: count }, () => between(0, 15).toString(16)).join(""),
    fork: (label) => createPrng(seed ^ hashOf(label)),
  };
}

function mixed(seed: number): number {
  const once = Math.imul((seed >>> 0) ^ (seed >>> 16), 0x45d9f3b);
  return Math.imul(once ^ (once >>> 16), 0x45d9f3b) | 0;
}

/** FNV-1a. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (const character of text) hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193);
  return hash >>> 0;
}
