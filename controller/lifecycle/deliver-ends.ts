import type { AssignmentRecord } from "../assignment/record.ts";
import type { Times } from "../assignment/times.ts";
import { backoffMs, type Random } from "../platform/backoff.ts";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import { abortable, isAbortOf, withDeadline } from "../platform/signal.ts";
import { createWakeup, listenForAny } from "../platform/wakeup.ts";
import type { Assignments } from "./assignments.ts";
import { createTellEnd, isReady, type TellEndOptions } from "./tell-end.ts";

export type EndsOptions = TellEndOptions & {
  readonly assignments: Pick<Assignments, "get" | "all" | "within" | "apply" | "changed">;
  /** Writes on the executor, if there is one, that its task is over. */
  readonly markTerminal: (record: AssignmentRecord, signal: AbortSignal) => Promise<void>;
  readonly times: Pick<Times, "callMs">;
  readonly clock: Clock;
  readonly random: Random;
};

/** Tells Gitea the ends that are decided. */
export type Ends = {
  /**
   * One try, to be run as the assignment's actor: tells Gitea, records what it shows, marks the executor. Resolves to
   * the record as it is then: `finished`, or `ending` if it is not to be told yet. Rejects with whatever went wrong;
   * the record says how far it came, and the same call goes on from there. The mark alone does not: it is made again
   * for a finished record whose executor lacks it.
   */
  deliver(id: string, signal: AbortSignal): Promise<AssignmentRecord>;
  /** Delivers what is ready, each assignment for itself, again and again until it is accepted. */
  run(signal: AbortSignal): Promise<void>;
};

const backoff = { firstMs: 1_000, maxMs: 30_000 };

/** Tries of one assignment that failed. */
type Failed = { readonly failures: number; readonly notBefore: number; readonly error: string };

export function createEnds(options: EndsOptions): Ends {
  const { assignments, times, clock, random, log } = options;
  const tell = createTellEnd(options);
  const failed = new Map<string, Failed>();

  const known = (id: string): AssignmentRecord => {
    const record = assignments.get(id)?.record;
    if (record === undefined) throw new Error(`${id} is not known`);
    return record;
  };

  const once = async (id: string, signal: AbortSignal): Promise<AssignmentRecord> => {
    const record = known(id);
    const { phase } = record;
    if (phase.name !== "ending" || !isReady(record)) return record;
    const shown = await tell(record, phase, signal);
    signal.throwIfAborted();
    if (shown === undefined) return known(id);
    const { record: after, ignored } = await assignments.apply(
      id,
      shown === "gone"
        ? { type: "ended_by_gitea", result: "cancelled" }
        : { type: "accepted", result: shown },
      signal,
    );
    if (ignored === undefined) log.info({ assignment: id, result: shown, by: phase.end.by }, "task over");
    await options.markTerminal(after, signal);
    return after;
  };

  const isEnding = (id: string) => assignments.get(id)?.record.phase.name === "ending";

  /** Notes how a try went; a failure is told when it is another one than before. */
  const noted = async (id: string, trying: Promise<AssignmentRecord>): Promise<AssignmentRecord> => {
    try {
      const record = await trying;
      failed.delete(id);
      return record;
    } catch (error) {
      const before = failed.get(id);
      const failures = (before?.failures ?? 0) + 1;
      const text = describeError(error);
      if (!isEnding(id)) {
        failed.delete(id);
        log.warn({ assignment: id, error: text }, "executor of a finished task not marked yet");
        throw error;
      }
      if (before?.error !== text)
        log.warn({ assignment: id, error: text, failures }, "end of a task not delivered yet");
      failed.set(id, {
        failures,
        notBefore: clock.now() + backoffMs(failures, backoff, random),
        error: text,
      });
      throw error;
    }
  };

  /** Milliseconds until the next try, 0 for now. A clock that was set back must not make it long. */
  const pause = (id: string): number => {
    const left = (failed.get(id)?.notBefore ?? 0) - clock.now();
    return left > backoff.maxMs ? 0 : Math.max(0, left);
  };

  const run = async (signal: AbortSignal) => {
    const running = new Map<string, Promise<unknown>>();
    const settled = createWakeup();
    const start = async (id: string) => {
      try {
        await assignments.within(id, () =>
          noted(
            id,
            withDeadline(clock, times.callMs, (deadline) => once(id, deadline), signal),
          ),
        );
      } catch {
        // It is noted, and tried again.
      } finally {
        running.delete(id);
        settled.wake();
      }
    };
    while (!signal.aborted) {
      // Some end in another way.
      for (const id of failed.keys()) if (!isEnding(id)) failed.delete(id);
      const waiting = assignments
        .all()
        .filter(({ record }) => isReady(record) && !running.has(record.assignment.id))
        .map(({ record: { assignment } }) => ({ id: assignment.id, inMs: pause(assignment.id) }));
      const soonest = Math.min(...waiting.map(({ inMs }) => inMs).filter((inMs) => inMs > 0));
      using woken = listenForAny(
        [
          (either) => assignments.changed(either),
          (either) => settled.next(either),
          ...(Number.isFinite(soonest) ? [(either: AbortSignal) => clock.sleep(soonest, either)] : []),
        ],
        signal,
      );
      for (const { id, inMs } of waiting) if (inMs === 0) running.set(id, start(id));
      try {
        await woken.first();
      } catch (error) {
        if (!isAbortOf(signal, error)) throw error;
      }
    }
    await Promise.all(running.values());
  };

  return { deliver: (id, signal) => noted(id, abortable(once(id, signal), signal)), run };
}
