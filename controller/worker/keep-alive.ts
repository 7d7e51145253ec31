import type { BackendKind } from "../assignment/backend-kind.ts";
import type { AssignmentEvent } from "../assignment/event.ts";
import { isUnclaimed, type AssignmentRecord } from "../assignment/record.ts";
import type { Times } from "../assignment/times.ts";
import type { Random } from "../platform/backoff.ts";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import { withDeadline } from "../platform/signal.ts";
import { createWakeup, listenForAny } from "../platform/wakeup.ts";
import { obeyGitea, type Said } from "./obey-gitea.ts";

/**
 * Of hundreds of tasks each beat would otherwise be under way at once as soon as Gitea answers slower than they come; it
 * then works for callers that have given up, and answers nothing in time, the look before a create and results among it.
 */
const mostAtOnce = 8;

export type KeepAliveOptions = {
  readonly kind: BackendKind;
  readonly assignments: {
    all(): readonly { readonly record: AssignmentRecord }[];
    get(id: string): { readonly record: AssignmentRecord } | undefined;
    within<T>(id: string, work: () => Promise<T>): Promise<T>;
    apply(id: string, event: AssignmentEvent, signal: AbortSignal): Promise<unknown>;
    changed(signal: AbortSignal): Promise<void>;
  };
  /** Tells Gitea that the task is held; resolves to what Gitea says of it. */
  readonly beat: (taskId: bigint, signal: AbortSignal) => Promise<Said>;
  readonly report: (assignment: string | undefined, error: string) => void;
  readonly times: Pick<Times, "beatMs" | "callMs">;
  readonly clock: Clock;
  readonly random: Random;
};

/**
 * Speaks for the tasks of one backend that nobody has claimed: Gitea gives up a task of which it hears nothing for
 * some minutes, and only its answer tells of a cancel. After the claim only the bootstrap speaks: a beat without
 * the steps would set those that are over back to running.
 *
 * Each task has its own rhythm, and Gitea is asked outside the assignment's actor: what hangs for one task, or in
 * its actor, delays no other task's beat, and only the change that an answer makes is made inside. When more are due
 * than are asked about at once, the one that has waited longest is next.
 */
export function createKeepAlive(options: KeepAliveOptions) {
  const { kind, assignments, beat, report, times, clock, random } = options;
  /** When each is to be told next. */
  const due = new Map<string, number>();
  const underWay = new Set<Promise<void>>();
  let asking = 0;
  const free = createWakeup();

  const ask = async (taskId: bigint, signal: AbortSignal): Promise<Said> => {
    // One that takes longer than the pause to the next is repeated: it may be the one that tells of a cancel.
    const deadlineMs = Math.min(times.callMs, times.beatMs);
    asking++;
    try {
      return await withDeadline(clock, deadlineMs, (deadline) => beat(taskId, deadline), signal);
    } finally {
      if (asking-- === mostAtOnce) free.wake();
    }
  };

  const speakFor = async ({ assignment: { id, taskId } }: AssignmentRecord, signal: AbortSignal) => {
    const word = obeyGitea(await ask(taskId, signal));
    if (word === undefined) return;
    await assignments.within(id, async () => {
      const record = assignments.get(id)?.record;
      // Whoever has claimed it meanwhile hears of it by itself.
      if (record === undefined || !isUnclaimed(record)) return;
      await withDeadline(clock, times.callMs, (deadline) => assignments.apply(id, word, deadline), signal);
    });
  };

  const start = (record: AssignmentRecord, signal: AbortSignal) => {
    const speaking: Promise<void> = speakFor(record, signal)
      .catch((error: unknown) => {
        if (!signal.aborted) report(record.assignment.id, describeError(error));
      })
      .finally(() => underWay.delete(speaking));
    underWay.add(speaking);
  };

  /** Begins beats that are due; says how long until the next one, if none has to end before it. */
  const look = (signal: AbortSignal): number => {
    const mine = assignments
      .all()
      .map(({ record }) => record)
      .filter((record) => record.assignment.backend === kind && isUnclaimed(record));
    const ids = new Set(mine.map(({ assignment }) => assignment.id));
    for (const id of due.keys()) if (!ids.has(id)) due.delete(id);
    const now = clock.now();
    // Those that are taken over all at once are not to be told of all at once for ever.
    for (const id of ids) if (!due.has(id)) due.set(id, now + random() * times.beatMs);
    const dueAt = ({ assignment }: AssignmentRecord) => due.get(assignment.id) ?? now;
    const late = mine.filter((record) => dueAt(record) <= now).toSorted((a, b) => dueAt(a) - dueAt(b));
    for (const record of late.slice(0, Math.max(0, mostAtOnce - asking))) {
      start(record, signal);
      due.set(record.assignment.id, now + jittered(times.beatMs, random));
    }
    return asking >= mostAtOnce ? Infinity : Math.min(...due.values()) - now;
  };

  return {
    /** Ends with the signal, after what is under way. */
    run: async (signal: AbortSignal): Promise<void> => {
      while (!signal.aborted) {
        const wakers = [
          (either: AbortSignal) => assignments.changed(either),
          (either: AbortSignal) => free.next(either),
        ];
        const listen = (ms: number) =>
          listenForAny(ms === Infinity ? wakers : [...wakers, (either) => clock.sleep(ms, either)], signal);
        using woken = listen(look(signal));
        try {
          await woken.first();
        } catch (error) {
          if (!signal.aborted) throw error;
        }
      }
      await Promise.all(underWay);
    },
  };
}

/** Ten to fifteen seconds for a rhythm of twelve. */
function jittered(ms: number, random: Random): number {
  return (ms * (10 + 5 * random())) / 12;
}
