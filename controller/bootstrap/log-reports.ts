import type { LogRow, UpdateLogRequest } from "../../proto/gen/runner/v1/runner_pb.ts";
import { withoutMiddle } from "./log-gaps.ts";
import { withoutHugeRows } from "./log-limits.ts";
import { costOf, ended, left, type LogSpool } from "./log-spool.ts";
import { rowCost, splitRows } from "./row-runs.ts";

/**
 * Takes in what gitea-runner reports: the rows that it has not reported before, as far as there is room. With `drop`
 * all of them, and what is too much is dropped in the middle of what waits. Rows behind a gap in its own counting are
 * left out: it is told to begin at `accepted`.
 */
export function append(spool: LogSpool, report: UpdateLogRequest, drop: boolean): LogSpool {
  const index = Number(report.index);
  const end = index + report.rows.length;
  const fresh = report.rows.slice(Math.max(0, spool.accepted - index));
  // Gitea takes no rows behind the last one either.
  if (spool.end.kind !== "open")
    return { ...spool, accepted: Math.max(spool.accepted, end), lost: spool.lost + fresh.length };
  if (index < 0 || index > spool.accepted) return spool;
  const rows = withoutHugeRows(fresh, spool.limits.row);
  const taken = drop ? rows : fitting(rows, spool);
  const isLast = report.noMore && spool.accepted + taken.length >= end;
  if (taken.length === 0 && !isLast) return spool;
  const next: LogSpool = {
    ...withRows(spool, taken),
    accepted: spool.accepted + taken.length,
    lost: spool.lost + taken.filter((row, position) => row !== fresh[position]).length,
    unknown: report.$unknown ?? spool.unknown,
  };
  return withoutMiddle(isLast ? ended(next) : next);
}

/** Whether all rows of a report were taken. */
export function hasTaken({ accepted }: LogSpool, report: UpdateLogRequest): boolean {
  return Number(report.index) + report.rows.length <= accepted;
}

/** What gitea-runner is told to be stored: not more than it has just sent, older versions panic then. */
export function ackIndexFor({ accepted }: LogSpool, report: UpdateLogRequest): bigint {
  const end = report.index + BigInt(report.rows.length);
  return end < BigInt(accepted) ? end : BigInt(accepted);
}

/** Adds a row of ours as the last one; gitea-runner does not count it. Too late if the log is over. */
export function withLastRow(spool: LogSpool, row: LogRow): LogSpool {
  return spool.end.kind === "over" ? { ...spool, lost: spool.lost + 1 } : ended(withRows(spool, [row]));
}

/** Adds a row of ours behind which somebody else's follow. */
export function withRowBeforeOthers(spool: LogSpool, row: LogRow): LogSpool {
  return spool.end.kind === "open" ? left(withRows(spool, [row])) : spool;
}

/** The first rows for which there is room; one at least if nothing waits. */
function fitting(rows: readonly LogRow[], { limits, pieces }: LogSpool): readonly LogRow[] {
  let cost = costOf(pieces);
  const count = rows.findIndex((row, position) => {
    cost += rowCost(row);
    return cost > limits.spool && (position > 0 || pieces.length > 0);
  });
  return count === -1 ? rows : rows.slice(0, count);
}

/** Small reports are put together, so that the pieces stay few. */
function withRows(spool: LogSpool, rows: readonly LogRow[]): LogSpool {
  const pieces = [...spool.pieces];
  let from = spool.accepted;
  for (const run of splitRows(rows, spool.limits.piece)) {
    const last = pieces.at(-1);
    const cost = (last?.kind === "rows" ? last.cost : 0) + run.cost;
    if (last?.kind === "rows" && cost <= spool.limits.piece)
      pieces[pieces.length - 1] = { ...last, rows: [...last.rows, ...run.rows], cost };
    else pieces.push({ kind: "rows", from, ...run });
    from += run.rows.length;
  }
  return { ...spool, pieces };
}
