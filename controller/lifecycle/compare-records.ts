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
  readonly assignments: Pick<Assignments, "all" | "get" | "within" | "keep" | "restore">;
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
 * Looks for records that got lost, with their bucket, with the end of it or because somebody has spoilt them, and
 * writes them anew from memory, also those that nothing else changes: a controller that starts afterwards has to find
 * them. While nothing is lost it only reads. What it finds and nobody here knows was written by a controller that led
 * before, after this one had read the records: it is taken in, or nobody would speak for its task.
 */
export function createCompareRecords(options: CompareRecordsOptions): CompareRecords {
  const { records, assignments, times, clock, log } = options;
  /** What nobody here knew at the last comparison: not one that is just being made, or has just been forgotten. */
  let strange: ReadonlySet<string> = new Set();

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

  const takeIn = (stored: VersionedRecord) => {
    const { id } = stored.record.assignment;
    return assignments.within(id, async () => {
      if (assignments.get(id) !== undefined) return;
      assignments.restore(stored);
      log.warn({ assignment: id, phase: stored.record.phase.name }, "record of an earlier leader taken in");
    });
  };

  const pass = async (signal: AbortSignal) => {
    const before = new Map(assignments.all().map(({ record, revision }) => [record.assignment.id, revision]));
    const stored = await withDeadline(clock, times.callMs, (deadline) => records.list(deadline), signal);
    const there = new Map(stored.records.map((one) => [one.record.assignment.id, one]));
    // One that is older than what was stored before the list was asked for has lost its newest writes.
    for (const [id, revision] of before)
      if ((there.get(id)?.revision ?? 0) < revision) await keep(id, signal);
    const unknown = [...there].filter(([id]) => assignments.get(id) === undefined);
    for (const [id, found] of unknown) if (strange.has(id)) await takeIn(found);
    strange = new Set(unknown.map(([id]) => id));
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
