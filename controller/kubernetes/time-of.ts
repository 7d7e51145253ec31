/** A text of the API as milliseconds since the epoch. */
export function timeOf(timestamp: string | undefined): number | undefined {
  const ms = timestamp === undefined ? NaN : Date.parse(timestamp);
  return Number.isNaN(ms) ? undefined : ms;
}
