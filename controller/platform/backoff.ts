/** A number in [0, 1): Math.random, or what a test wants. */
export type Random = () => number;

/** Good enough to spread retries; nothing secret comes from it. */
export const systemRandom: Random = () => Math.random();

export type Backoff = { readonly firstMs: number; readonly maxMs: number };

/** The delay before try number `failures + 1`: doubled each time up to the maximum, then up to a fifth less. */
export function backoffMs(failures: number, { firstMs, maxMs }: Backoff, random: Random): number {
  const full = Math.min(maxMs, firstMs * 2 ** Math.min(30, Math.max(0, failures - 1)));
  return full * (1 - 0.2 * random());
}
