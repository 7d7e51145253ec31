import { create } from "@bufbuild/protobuf";
import { type LogRow, LogRowSchema } from "../../proto/gen/runner/v1/runner_pb.ts";
import { costOf, type GapPiece, type LogSpool, type RowsPiece, sizeOf } from "./log-spool.ts";

/**
 * Drops pieces while too much waits: from the middle on, the oldest first, because a log's beginning and its end tell
 * the most. There is one place where rows are being dropped, until its row is offered. What was offered stays.
 */
export function withoutMiddle(spool: LogSpool): LogSpool {
  let cost = costOf(spool.pieces);
  if (cost <= spool.limits.spool) return spool;
  const pieces = [...spool.pieces];
  const open = pieces.findIndex(({ kind }) => kind === "gap");
  const at = open === -1 ? middleOf(spool) : open;
  let gap = pieces[at]?.kind === "gap" ? pieces[at] : undefined;
  let next = gap === undefined ? at : at + 1;
  for (; cost > spool.limits.spool; next++) {
    const piece = pieces[next];
    if (piece?.kind !== "rows") break;
    gap = withPiece(gap, piece, spool.failingSince);
    cost -= piece.cost;
  }
  if (gap !== undefined) pieces.splice(at, next - at, gap);
  return { ...spool, pieces };
}

/** The first piece behind half of what may wait, of those that were not offered. */
function middleOf({ pieces, limits, stored, offered }: LogSpool): number {
  let index = stored;
  let cost = 0;
  const found = pieces.findIndex((piece) => {
    const isBehind = index >= offered && cost >= limits.spool / 2;
    index += sizeOf(piece);
    cost += costOf([piece]);
    return isBehind;
  });
  return found === -1 ? pieces.length : found;
}

function withPiece(gap: GapPiece | undefined, piece: RowsPiece, since: number | undefined): GapPiece {
  const { from, rows } = piece;
  return gap === undefined
    ? { kind: "gap", from, count: rows.length, time: rows[0]?.time, since }
    : { ...gap, count: gap.count + rows.length };
}

/** The row that stands in Gitea for those that were dropped; `now` in milliseconds since the epoch. */
export function markerRow({ count, time, since }: GapPiece, now: number): LogRow {
  const what = count === 1 ? "1 log row was dropped here" : `${count} log rows were dropped here`;
  const why =
    since === undefined
      ? "they came faster than Gitea takes them"
      : `the runner's controller could not be reached for ${describeDuration(now - since)}`;
  return create(LogRowSchema, { ...(time === undefined ? {} : { time }), content: `${what}: ${why}.` });
}

function describeDuration(ms: number): string {
  const seconds = Math.round(ms / 1000);
  return seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
}
