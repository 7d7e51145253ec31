import type { Times } from "../assignment/times.ts";
import type { Clock } from "../platform/clock.ts";
import type { Logger } from "../platform/logger.ts";
import { withDeadline } from "../platform/signal.ts";
import type { Assignments, VersionedRecord } from "./assignments.ts";
import { nowAndThen } from "./now-and-then.ts";

export type CompareRecordsOptions = {
  readonly records: {
    list(signal: AbortSignal): Promise<{ readonly records: readonly VersionedRecord[] }>;
  };
  readonly assignments: Pick<Assignments, "all" | "within" | "keep">;
  readonly times: Pick<Times, "compareStreamMs" | "callMs">;
  readonly clock: Clock;
  readonly log: Logger;
};

export type CompareRecords = {
  /** Compares once. Rejects if the records cannot be read or written; doing it again is fine. */
  pass(signal: AbortSignal): Promise<void>;
  run(signal: AbortSignal): Promise<void>;
};

/**
 * Looks for records that got lost, with their bucket or because somebody has spoilt them, and writes them anew from
 * memory, also those that nothing else changes: a controller that starts afterwards has to find them. While nothing
 * is lost it only reads.
 */
export function createCompareRecords(options: CompareRecordsOptions): CompareRecords {
  const { records, assignments, times, clock, log } = options;

  const keep = (id: string, signal: AbortSignal) =>
    withDeadline(
      clock,
      times.callMs,
      (deadline) =>
        assignments.within(id, async () => {
          deadline.throwIfAborted();
          // Forgotten meanwhile: then it is gone for good, and is not written.
          if (await assignments.keep(id, deadline)) log.warn({ assignment: id }, "lost record written anew");
        }),
      signal,
    );

  const pass = async (signal: AbortSignal) => {
    const before = assignments.all().map(({ record }) => record.assignment.id);
    const stored = await withDeadline(clock, times.callMs, (deadline) => records.list(deadline), signal);
    const there = new Set(stored.records.map(({ record }) => record.assignment.id));
    for (const id of before) if (!there.has(id)) await keep(id, signal);
  };

  return {
    pass,
    run: (signal) =>
      nowAndThen(
        { doing: "comparing the records", everyMs: times.compareStreamMs, pass, clock, log },
        signal,
      ),
  };
}
