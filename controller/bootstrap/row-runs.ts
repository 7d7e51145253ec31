import type { LogRow } from "../../proto/gen/runner/v1/runner_pb.ts";

/** What a row takes beside its text: the objects that hold it in memory. On the wire it is less. */
const rowOverhead = 200;

/** What a row takes, in bytes, in memory or on the wire, whichever is more. */
export function rowCost({ content }: LogRow): number {
  return Buffer.byteLength(content) + rowOverhead;
}

/** A run of rows with what all of them take. */
export type RowRun = { readonly rows: readonly LogRow[]; readonly cost: number };

/**
 * Cuts rows into runs that cost at most `maxCost`, in order; a row that costs more is a run of its own. Nothing in a
 * row is changed.
 */
export function splitRows(rows: readonly LogRow[], maxCost: number): readonly RowRun[] {
  const runs: RowRun[] = [];
  let current: LogRow[] = [];
  let cost = 0;
  const cut = () => {
    if (current.length > 0) runs.push({ rows: current, cost });
    current = [];
    cost = 0;
  };
  for (const row of rows) {
    const own = rowCost(row);
    if (cost + own > maxCost) cut();
    current.push(row);
    cost += own;
  }
  cut();
  return runs;
}
