/** Milliseconds as seconds, for the left column of a line. */
export function stamp(ms: number): string {
  return `${(Math.max(0, ms) / 1000).toFixed(2).padStart(7)} s`;
}
