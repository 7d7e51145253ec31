import type { Timestamp } from "@bufbuild/protobuf/wkt";
import type { LogRow, UpdateLogRequest } from "../../proto/gen/runner/v1/runner_pb.ts";
import type { LogLimits } from "./log-limits.ts";

/** Rows that wait. */
export type RowsPiece = {
  readonly kind: "rows";
  /** Of the first row, as gitea-runner counts. */
  readonly from: number;
  readonly rows: readonly LogRow[];
  readonly cost: number;
};

/** Where rows were dropped; one row says so, as soon as its turn has come. */
export type GapPiece = {
  readonly kind: "gap";
  /** Of the first dropped row, as gitea-runner counts. */
  readonly from: number;
  readonly count: number;
  /** The first dropped row's. */
  readonly time: Timestamp | undefined;
  /** When calls had begun to fail, in milliseconds since the epoch; undefined if none did. */
  readonly since: number | undefined;
};

export type Piece = RowsPiece | GapPiece;

/** Dropped rows in whose place stands one row. */
export type Gap = { readonly from: number; readonly count: number };

/**
 * Whether gitea-runner may add rows (`open`), has given its last ones (`wanted`: the call with the last row is to say
 * so, and has failed so many times; `left`: it is not, the controller's rows follow), or nothing is sent any more
 * (`over`).
 */
export type LogEnd =
  | { readonly kind: "open" }
  | { readonly kind: "wanted"; readonly failures: number }
  | { readonly kind: "left" }
  | { readonly kind: "over" };

/**
 * The log lane's memory: rows that gitea-runner was told to be taken, until Gitea has them. Three ways of counting
 * meet here. gitea-runner's counts its rows from 0. Ours does too, but counts a gap as the one row that stands in its
 * place. Gitea's begins with rows of the controller's; that is left to the lane.
 */
export type LogSpool = {
  readonly limits: LogLimits;
  /** Rows of gitea-runner's that were taken, as it counts: its next one has this index. */
  readonly accepted: number;
  /** Rows that Gitea has, as we count: the first one that waits has this index. */
  readonly stored: number;
  /** Up to here rows were sent, as we count: Gitea may have them, so they are not dropped. */
  readonly offered: number;
  readonly pieces: readonly Piece[];
  /** Those whose row was offered; all others are among the pieces. */
  readonly gaps: readonly Gap[];
  readonly end: LogEnd;
  /** Whether `stored` is what Gitea has: not after a call whose outcome nobody knows. */
  readonly certain: boolean;
  /** How much goes into one call: less after one that failed. */
  readonly batch: number;
  /** Since when calls have failed and no row was stored, in milliseconds since the epoch. */
  readonly failingSince: number | undefined;
  /** Rows that were taken and that Gitea will never have, those in gaps aside. */
  readonly lost: number;
  /** Fields of gitea-runner's calls that we do not know, passed on with ours. */
  readonly unknown: UpdateLogRequest["$unknown"];
};

export function emptyLog(limits: LogLimits): LogSpool {
  return {
    limits,
    accepted: 0,
    stored: 0,
    offered: 0,
    pieces: [],
    gaps: [],
    end: { kind: "open" },
    certain: true,
    batch: limits.batch,
    failingSince: undefined,
    lost: 0,
    unknown: undefined,
  };
}

/** No rows follow those that wait. */
export function ended(spool: LogSpool): LogSpool {
  return spool.end.kind === "open" ? { ...spool, end: { kind: "wanted", failures: 0 } } : spool;
}

/** No rows of ours follow those that wait, but somebody else's do; it is over once Gitea has them. */
export function left(spool: LogSpool): LogSpool {
  if (spool.end.kind !== "open" && spool.end.kind !== "left") return spool;
  const all = spool.certain && spool.pieces.length === 0;
  return { ...spool, end: { kind: all ? "over" : "left" } };
}

/** Nothing is sent any more; what still waits is lost. */
export function over(spool: LogSpool): LogSpool {
  return { ...spool, pieces: [], end: { kind: "over" }, lost: spool.lost + waitingRows(spool) };
}

/** Whether there is nothing to send. */
export function isIdle({ end, certain, pieces }: LogSpool): boolean {
  return end.kind === "over" || (end.kind === "open" && certain && pieces.length === 0);
}

/** Rows that Gitea does not have, as far as we know. */
export function waitingRows({ pieces }: LogSpool): number {
  return pieces.reduce((sum, piece) => sum + sizeOf(piece), 0);
}

/** How many rows a piece is in Gitea. */
export function sizeOf(piece: Piece): number {
  return piece.kind === "rows" ? piece.rows.length : 1;
}

/** What pieces take, in bytes. */
export function costOf(pieces: readonly Piece[]): number {
  return pieces.reduce((sum, piece) => sum + (piece.kind === "rows" ? piece.cost : 0), 0);
}

/**
 * Where a row of gitea-runner's stands, as we count. The first row of a gap stands where its marker does, the others
 * right behind that.
 */
export function ownIndex({ gaps, pieces }: LogSpool, index: number): number {
  let own = index;
  for (const { from, count } of [...gaps, ...pieces.filter((piece) => piece.kind === "gap")])
    if (index > from) own -= Math.min(index, from + count) - from - 1;
  return own;
}
