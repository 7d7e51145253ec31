import type { LogRow } from "../../proto/gen/runner/v1/runner_pb.ts";
import { markerRow } from "./log-gaps.ts";
import { isIdle, left, type LogSpool, over, type Piece, type RowsPiece, sizeOf } from "./log-spool.ts";
import { rowCost } from "./row-runs.ts";

/** What the log lane asks of Gitea next. Rows are counted as we count. */
export type LogCall =
  | { readonly kind: "none" }
  /** How many rows are stored. */
  | { readonly kind: "count" }
  | {
      readonly kind: "rows";
      readonly index: number;
      readonly rows: readonly LogRow[];
      readonly noMore: boolean;
    };

/**
 * The next call, and the spool that remembers what it offers; one is made at a time. The last rows say that no more
 * follow: Gitea before 1.27 heeds nothing else. But a Gitea that cannot close the log stores no row of such a call.
 * When that seems to be so the rows go first, and the log is closed by a call of its own.
 */
export function nextCall(spool: LogSpool, now: number): { readonly spool: LogSpool; readonly call: LogCall } {
  const { end, pieces, gaps } = spool;
  if (isIdle(spool)) return { spool, call: { kind: "none" } };
  if (!spool.certain) return { spool, call: { kind: "count" } };
  const length = batchLength(spool);
  const batch = pieces.slice(0, length);
  const offered = batch.map((piece) => asRows(piece, now));
  const rows = offered.flatMap((piece) => piece.rows);
  const isLast = length === pieces.length && end.kind === "wanted";
  return {
    spool: {
      ...spool,
      pieces: [...offered, ...pieces.slice(length)],
      gaps: [...gaps, ...batch.filter((piece) => piece.kind === "gap")],
      offered: Math.max(spool.offered, spool.stored + rows.length),
    },
    call: {
      kind: "rows",
      index: spool.stored,
      rows,
      noMore: isLast && (end.failures < 2 || rows.length === 0),
    },
  };
}

/** Takes in how many rows Gitea has after a call, as we count. */
export function answered(spool: LogSpool, call: LogCall, stored: number): LogSpool {
  // What Gitea does not have any more is not here either, and the next rows would not fit: this log is over.
  if (stored < spool.stored) return over(spool);
  const known: LogSpool = { ...withoutStored(spool, Math.min(stored, spool.offered)), certain: true };
  const next = known.end.kind === "left" ? left(known) : known;
  if (call.kind === "rows" && call.noMore && next.stored >= call.index + call.rows.length) return over(next);
  if (next.stored > spool.stored) {
    const batch = call.kind === "rows" ? Math.min(next.batch * 2, next.limits.batch) : next.batch;
    return { ...next, failingSince: undefined, batch };
  }
  // An answer to rows that leaves all as it was is none.
  return call.kind === "rows" ? { ...next, certain: false } : next;
}

/** Takes in that a call failed: what became of its rows is to be asked for. `now` in milliseconds since the epoch. */
export function failed(spool: LogSpool, call: LogCall, now: number): LogSpool {
  const { end, limits } = spool;
  const isClosing = call.kind === "rows" && call.noMore && end.kind === "wanted";
  return {
    ...spool,
    certain: false,
    failingSince: spool.failingSince ?? now,
    batch: Math.max(limits.piece, Math.floor(spool.batch / 2)),
    end: isClosing ? { kind: "wanted", failures: end.failures + 1 } : end,
  };
}

/** How many pieces fit into a call; at least one. */
function batchLength({ pieces, batch }: LogSpool): number {
  let cost = 0;
  const length = pieces.findIndex((piece, position) => {
    if (piece.kind === "rows") cost += piece.cost;
    return cost > batch && position > 0;
  });
  return length === -1 ? pieces.length : length;
}

/** A gap that is offered does not grow any more: its row says how long it is. */
function asRows(piece: Piece, now: number): RowsPiece {
  if (piece.kind === "rows") return piece;
  const row = markerRow(piece, now);
  return { kind: "rows", from: piece.from, rows: [row], cost: rowCost(row) };
}

function withoutStored(spool: LogSpool, stored: number): LogSpool {
  let excess = stored - spool.stored;
  const pieces: Piece[] = [];
  for (const piece of spool.pieces) {
    const gone = Math.min(excess, sizeOf(piece));
    excess -= gone;
    if (gone === 0) pieces.push(piece);
    else if (piece.kind === "rows" && gone < piece.rows.length) pieces.push(withoutFirst(piece, gone));
  }
  return { ...spool, stored, pieces };
}

function withoutFirst({ from, rows }: RowsPiece, count: number): RowsPiece {
  const rest = rows.slice(count);
  const cost = rest.reduce((sum, row) => sum + rowCost(row), 0);
  return { kind: "rows", from: from + count, rows: rest, cost };
}
