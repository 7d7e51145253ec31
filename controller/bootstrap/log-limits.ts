import { create } from "@bufbuild/protobuf";
import { type LogRow, LogRowSchema } from "../../proto/gen/runner/v1/runner_pb.ts";
import { rowCost } from "./row-runs.ts";

/** How much of a log is held and sent at once, in bytes. */
export type LogLimits = {
  /** Rows that wait, in memory. */
  readonly spool: number;
  /** Rows that are dropped together, and the least that a call holds. */
  readonly piece: number;
  /** Rows in one call: well below the facade's limit of 64 MiB, and little enough for one call's deadline. */
  readonly batch: number;
  /** One row: still below the facade's limit. */
  readonly row: number;
};

const mebibyte = 1024 * 1024;

export const defaultLogLimits: LogLimits = {
  spool: 64 * mebibyte,
  piece: mebibyte / 4,
  batch: 8 * mebibyte,
  row: 48 * mebibyte,
};

/**
 * A row that no call can hold would stand in the way of all others: another one, which says so, takes its place.
 * Gitea itself shows 64 KiB of a row.
 */
export function withoutHugeRows(rows: readonly LogRow[], maxCost: number): readonly LogRow[] {
  return rows.map((row) => {
    const cost = rowCost(row);
    if (cost <= maxCost) return row;
    const content = `A log row of ${Math.ceil(cost / mebibyte)} MiB was left out: it is too large for one call.`;
    return create(LogRowSchema, { ...(row.time === undefined ? {} : { time: row.time }), content });
  });
}
