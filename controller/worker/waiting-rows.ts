import type { BackendKind } from "../assignment/backend-kind.ts";
import type { AssignmentEvent } from "../assignment/event.ts";
import type { Failure } from "../assignment/failure.ts";
import { type AssignmentRecord, isUnclaimed } from "../assignment/record.ts";
import type { Times } from "../assignment/times.ts";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import { withDeadline } from "../platform/signal.ts";
import type { Circuit } from "./circuit.ts";
import { nothingTold, type Told, waitingRow, type WaitingRow } from "./waiting-row.ts";

export type WaitingRowsOptions = {
  readonly kind: BackendKind;
  readonly assignments: {
    all(): readonly { readonly record: AssignmentRecord }[];
    get(id: string): { readonly record: AssignmentRecord } | undefined;
    within<T>(id: string, work: () => Promise<T>): Promise<T>;
    apply(
      id: string,
      event: AssignmentEvent,
      signal: AbortSignal,
    ): Promise<{ readonly record: AssignmentRecord }>;
  };
  /** One at a time for each task: Gitea does not lock its logs. Everything that writes a task's log goes through it. */
  readonly logLanes: { run<T>(key: string, work: () => Promise<T>): Promise<T> };
  readonly gitea: {
    /** How many rows the task's log has. */
    storedRows(taskId: bigint, signal: AbortSignal): Promise<number>;
    /** Adds a row behind so many. */
    appendRow(taskId: bigint, index: number, text: string, signal: AbortSignal): Promise<unknown>;
  };
  readonly circuit: Pick<Circuit, "state">;
  readonly report: (assignment: string | undefined, error: string) => void;
  readonly times: Pick<Times, "retryMs" | "againMs">;
  readonly clock: Clock;
};

export type WaitingRows = {
  /** Why a job waits, as just seen; undefined when it waits for nothing any more. */
  waits(id: string, failure: Failure | undefined): void;
  /** Tells until the signal is aborted. */
  run(signal: AbortSignal): Promise<void>;
};

/**
 * Tells each job that waits why, in its own log. Only before the claim, because from there on the executor counts
 * its rows; within the assignment's actor, so that a claim comes before a row or counts it. What cannot be told is
 * tried again, as long as it is still so.
 */
export function createWaitingRows(options: WaitingRowsOptions): WaitingRows {
  const { kind, assignments, logLanes, gitea, circuit, report, times, clock } = options;
  const reasons = new Map<string, Failure>();
  const told = new Map<string, Told>();
  /** A row of which nobody knows whether it has arrived, behind so many others. */
  const open = new Map<string, { readonly index: number; readonly told: Told }>();
  const busy = new Map<string, Promise<void>>();
  /** A claim or a cancel waits as long as this at most. */
  const rowMs = 2 * times.againMs;

  const reasonOf = ({ assignment, phase }: AssignmentRecord): Failure | undefined => {
    const state = circuit.state();
    // What has not begun waits for the backend as a whole, whether it was tried or not.
    if (phase.name === "queued" && state.name !== "closed") return state.failure;
    return reasons.get(assignment.id);
  };

  const due = (record: AssignmentRecord): WaitingRow | undefined =>
    waitingRow(record, reasonOf(record), told.get(record.assignment.id) ?? nothingTold, clock.now(), times);

  /** The row is decided again inside: what was due may not be so any more. */
  const write = (id: string, signal: AbortSignal) =>
    assignments.within(id, async () => {
      const known = assignments.get(id)?.record;
      if (known === undefined || !isUnclaimed(known)) return;
      await withDeadline(
        clock,
        rowMs,
        async (deadline) => {
          const { record } = await assignments.apply(id, { type: "rows_begun" }, deadline);
          const row = isUnclaimed(record) ? due(record) : undefined;
          if (row === undefined) return;
          told.set(id, await logLanes.run(id, () => append(record, row, deadline)));
        },
        signal,
      );
    });

  /** Resolves to what has been told then. */
  const append = async (
    { assignment: { id, taskId } }: AssignmentRecord,
    row: WaitingRow,
    signal: AbortSignal,
  ): Promise<Told> => {
    signal.throwIfAborted();
    const index = await gitea.storedRows(taskId, signal);
    const before = open.get(id);
    open.delete(id);
    // Nobody else writes before the claim: it has arrived, only its answer got lost.
    if (before !== undefined && index > before.index) return before.told;
    signal.throwIfAborted();
    open.set(id, { index, told: row.told });
    await gitea.appendRow(taskId, index, row.text, signal);
    open.delete(id);
    return row.told;
  };

  const start = (id: string, signal: AbortSignal) => {
    if (busy.has(id)) return;
    const writing = write(id, signal)
      .catch((error: unknown) => {
        if (signal.aborted) return;
        report(id, `telling the job why it waits: ${describeError(error)}`);
        // Not at once again: Gitea has other things to do than to refuse rows.
        told.set(id, { ...(told.get(id) ?? nothingTold), at: clock.now() - times.retryMs });
      })
      .finally(() => busy.delete(id));
    busy.set(id, writing);
  };

  const look = (signal: AbortSignal) => {
    const waiting = assignments
      .all()
      .map(({ record }) => record)
      .filter((record) => record.assignment.backend === kind && isUnclaimed(record));
    const ids = new Set(waiting.map(({ assignment }) => assignment.id));
    for (const map of [reasons, told, open]) for (const id of map.keys()) if (!ids.has(id)) map.delete(id);
    for (const record of waiting) if (due(record) !== undefined) start(record.assignment.id, signal);
  };

  return {
    waits: (id, failure) => {
      if (failure === undefined) reasons.delete(id);
      else reasons.set(id, failure);
    },
    run: async (signal) => {
      while (!signal.aborted) {
        look(signal);
        await clock.sleep(times.againMs, signal).catch(() => undefined);
      }
      await Promise.all(busy.values());
    },
  };
}
