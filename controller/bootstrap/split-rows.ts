import type { LogRow } from "../../proto/gen/runner/v1/runner_pb.ts";

/** Time, tags and lengths of a row on the wire, rounded up. */
const rowOverhead = 40;

/**
 * Cuts rows into runs of at most `maxBytes`, in order; a larger row is a run of its own. Nothing in it is
 * changed. No rows are one empty run: a call without rows may still say that no more follow.
 */
export function splitRows(rows: readonly LogRow[], maxBytes: number): readonly (readonly LogRow[])[] {
  const runs: LogRow[][] = [];
  let current: LogRow[] = [];
  let size = 0;
  for (const row of rows) {
    const bytes = Buffer.byteLength(row.content) + rowOverhead;
    if (current.length > 0 && size + bytes > maxBytes) {
      runs.push(current);
      current = [];
      size = 0;
    }
    current.push(row);
    size += bytes;
  }
  runs.push(current);
  return runs;
}
