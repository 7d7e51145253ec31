/** The middle of the values, in seconds. */
export function medianSeconds(milliseconds: readonly number[]): number {
  const sorted = milliseconds.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  const low = sorted[Math.ceil(middle) - 1] ?? NaN;
  const high = sorted[Math.floor(middle)] ?? NaN;
  return (low + high) / 2000;
}

/** `1.23 (0.90–1.80)`: median, least and most, in seconds. */
export function summary(milliseconds: readonly number[]): string {
  const seconds = (value: number) => (value / 1000).toFixed(2);
  const [least, most] = [Math.min(...milliseconds), Math.max(...milliseconds)];
  return `${medianSeconds(milliseconds).toFixed(2)} (${seconds(least)}–${seconds(most)})`;
}
