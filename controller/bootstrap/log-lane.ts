import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  type LogRow,
  LogRowSchema,
  type UpdateLogRequest,
  UpdateLogRequestSchema,
  type UpdateLogResponse,
  UpdateLogResponseSchema,
} from "../../proto/gen/runner/v1/runner_pb.ts";
import { answered, failed, type LogCall, nextCall } from "./log-calls.ts";
import type { LogLimits } from "./log-limits.ts";
import { ackIndexFor, append, hasTaken, withLastRow, withRowBeforeOthers } from "./log-reports.ts";
import { emptyLog, ended, isIdle, type LogSpool, over, ownIndex, waitingRows } from "./log-spool.ts";
import { createOutageLog } from "./outage-log.ts";
import { nextChange, type RelayCore } from "./relay-core.ts";

export type LogLane = {
  /**
   * Takes rows, as far as there is room. A spool that is full makes gitea-runner wait a little, as a slow Gitea would;
   * then it may be told to send the rest again. Its last rows are taken whatever becomes of them, and so are all while
   * the facade is away: it has not long to wait, or would send more and more at once.
   */
  updateLog(report: UpdateLogRequest): Promise<UpdateLogResponse>;
  /** gitea-runner adds no more rows; `lastRow` is one of ours. */
  close(lastRow?: string): void;
  /** Whether the log may be closed may be known now. */
  decided(): void;
  /** Sends what was taken, until the log is over; rejects with the signal's reason only. */
  run(signal: AbortSignal): Promise<void>;
  /** Whether there is nothing to send. */
  isDone(): boolean;
  /** Rows that Gitea does not have. */
  waiting(): number;
  /** Where a row of gitea-runner's stands in Gitea. */
  placeOf(index: bigint): bigint;
};

export type LogLaneOptions = {
  /** Rows that Gitea's log had before gitea-runner's first. */
  readonly logRows: bigint;
  readonly limits: LogLimits;
  /**
   * Whether the last row closes the log in Gitea. `no`: the controller's rows follow. `unknown`: that depends on the
   * result, which comes after gitea-runner's last row.
   */
  readonly closes: () => "yes" | "no" | "unknown";
};

const stoppedRow = "The executor was told to end while this job ran.";

/** Further than any log goes: asks for the number of stored rows without storing one. */
const beyondAnyLog = 1_000_000_000n;

/** Carries log rows in order, one call in flight. */
export function createLogLane(core: RelayCore, { logRows, limits, closes }: LogLaneOptions): LogLane {
  const { clock, times, log, taskId, changed } = core;
  const outage = createOutageLog(log, "UpdateLog");
  let spool: LogSpool = emptyLog(limits);
  let hasAll = false;
  const become = (next: LogSpool) => {
    if (next === spool) return;
    if (next.lost > spool.lost) log.warn({ rows: next.lost - spool.lost }, "log rows lost");
    spool = next;
    changed.wake();
  };
  const rowOf = (content: string): LogRow =>
    create(LogRowSchema, { time: timestampFromMs(clock.now()), content });

  const decided = () => {
    if (!hasAll) return;
    const word = closes();
    if (word === "yes") become(ended(spool));
    if (word === "no") become(withRowBeforeOthers(spool, rowOf(stoppedRow)));
  };

  const take = (report: UpdateLogRequest, drop: boolean) => {
    const closesNow = closes() === "yes";
    become(append(spool, closesNow ? report : { ...report, noMore: false }, drop));
    if (!report.noMore || !hasTaken(spool, report)) return;
    hasAll = true;
    if (!closesNow) decided();
  };

  const isAway = () => spool.failingSince !== undefined && clock.now() - spool.failingSince >= times.room;

  const updateLog = async (report: UpdateLogRequest): Promise<UpdateLogResponse> => {
    const until = clock.now() + times.room;
    for (;;) {
      take(report, isAway() || core.refused.aborted);
      const wait = until - clock.now();
      const isOver = hasTaken(spool, report) || report.index > spool.accepted || core.refused.aborted;
      if (isOver || wait <= 0) break;
      await nextChange(core, wait, core.refused).catch(() => undefined);
    }
    if (report.noMore && !hasTaken(spool, report)) take(report, true);
    return create(UpdateLogResponseSchema, { ackIndex: ackIndexFor(spool, report) });
  };

  const send = async (call: Exclude<LogCall, { readonly kind: "none" }>, signal: AbortSignal) => {
    const request = create(UpdateLogRequestSchema, { taskId, index: beyondAnyLog });
    if (call.kind === "rows") {
      request.index = BigInt(call.index) + logRows;
      request.rows = [...call.rows];
      request.noMore = call.noMore;
    }
    if (spool.unknown !== undefined) request.$unknown = spool.unknown;
    const { ackIndex } = await core.call((client, options) => client.updateLog(request, options), signal);
    return Number(ackIndex - logRows);
  };

  const run = async (signal: AbortSignal) => {
    while (spool.end.kind !== "over") {
      const next = nextCall(spool, clock.now());
      spool = next.spool;
      const { call } = next;
      if (call.kind === "none") {
        await changed.next(signal);
        continue;
      }
      try {
        const stored = await send(call, signal);
        become(answered(spool, call, stored));
        // Gitea may know its rows, and yet take none.
        if (call.kind === "rows") outage.passed();
      } catch (error) {
        signal.throwIfAborted();
        outage.failed(error);
        become(isClosed(error) ? over(spool) : failed(spool, call, clock.now()));
      }
      if (!spool.certain) await clock.sleep(times.retryEvery, signal);
    }
  };

  return {
    updateLog,
    close: (lastRow) => {
      hasAll = true;
      if (lastRow === undefined || closes() === "no") decided();
      else become(withLastRow(spool, rowOf(lastRow)));
    },
    decided,
    run,
    isDone: () => isIdle(spool),
    waiting: () => waitingRows(spool),
    placeOf: (index) => BigInt(ownIndex(spool, Number(index))) + logRows,
  };
}

/** Gitea has closed the log: no row will ever be taken. */
function isClosed(error: unknown): boolean {
  return error instanceof ConnectError && error.code === Code.AlreadyExists;
}
