import { failureKind } from "../assignment/failure-reasons.ts";
import type { Failure } from "../assignment/failure.ts";
import type { Times } from "../assignment/times.ts";
import type { Executor } from "../backends/backend.ts";
import type { Clock } from "../platform/clock.ts";

/** What is known of an attempt's executor beyond its record; a restart only makes it wait longer. */
export type Known = {
  /** It was there. */
  readonly seen: boolean;
  /** Since when it has been missing, though it was there. */
  readonly missingSince?: number;
  /** From when on the time counts in which it has to claim; a wait for room does not count. */
  readonly countedFrom?: number;
  /** What the last call for it failed with. */
  readonly failure?: Failure;
};

type Entry = Known & {
  readonly name: string;
  readonly running: boolean;
  /** When a create of it failed without saying whether it took effect. */
  readonly openSince?: number;
};

export type AttemptHistory = {
  /** What the backend lists now under this name, or what it answered to a create. */
  saw(id: string, name: string, listed: Executor | undefined): Known;
  /** A call for it failed; `open`: a create that may have taken effect, or may still do so. */
  failed(id: string, name: string, failure: Failure, open: boolean): void;
  /**
   * Whether there may be an executor that no list shows: one may still come of a create that has failed, or the list
   * is older than the current attempt's, whose name is given if there is one.
   */
  mayBe(id: string, current: string | undefined): boolean;
  /** Drops what is remembered of other assignments than those that are known. */
  keep(known: (id: string) => boolean): void;
};

export function createAttemptHistory(
  { callMs, absentMs }: Pick<Times, "callMs" | "absentMs">,
  clock: Pick<Clock, "now">,
): AttemptHistory {
  const entries = new Map<string, Entry>();
  const entryOf = (id: string, name: string): Entry => {
    const entry = entries.get(id);
    return entry?.name === name ? notAhead(entry, clock.now()) : { name, seen: false, running: false };
  };

  return {
    saw: (id, name, listed) => {
      const { missingSince = clock.now(), ...before } = entryOf(id, name);
      const entry = listed === undefined ? missed(before, missingSince) : there(before, listed, clock.now());
      entries.set(id, entry);
      return entry;
    },
    failed: (id, name, failure, open) => {
      entries.set(id, { ...entryOf(id, name), failure, ...(open ? { openSince: clock.now() } : {}) });
    },
    mayBe: (id, current) => {
      const known = entries.get(id);
      if (known === undefined) return false;
      const entry = notAhead(known, clock.now());
      entries.set(id, entry);
      const { name, seen, missingSince = clock.now(), openSince = -Infinity } = entry;
      // Twice as long as any call takes; what comes later still is found by the reconciler.
      if (clock.now() - openSince < 2 * callMs) return true;
      return name === current && seen && clock.now() - missingSince < absentMs;
    },
    keep: (known) => {
      for (const id of entries.keys()) if (!known(id)) entries.delete(id);
    },
  };
}

/** What lies ahead was before the clock was set back. */
function notAhead(entry: Entry, now: number): Entry {
  const { missingSince, countedFrom, openSince } = entry;
  return {
    ...entry,
    ...(missingSince === undefined ? {} : { missingSince: Math.min(missingSince, now) }),
    ...(countedFrom === undefined ? {} : { countedFrom: Math.min(countedFrom, now) }),
    ...(openSince === undefined ? {} : { openSince: Math.min(openSince, now) }),
  };
}

function missed(before: Entry, missingSince: number): Entry {
  return before.seen ? { ...before, missingSince } : before;
}

function there(entry: Entry, { state, createdAt }: Executor, now: number): Entry {
  const { openSince: _, ...before } = entry.seen ? entry : withoutFailure(entry);
  const running = state.phase === "running";
  const counted = before.countedFrom ?? createdAt;
  // It gets its whole time from when it runs, or is not waiting for room any more.
  const countedFrom = running
    ? before.running
      ? counted
      : now
    : waitsForRoom(waitingFor(state))
      ? now
      : counted;
  return { ...before, seen: true, running, countedFrom };
}

/** That it could not be made at first tells nothing once it is there. */
function withoutFailure(entry: Entry): Entry {
  const { failure: _, ...rest } = entry;
  return rest;
}

/** Why an executor does not run yet, or cannot take its job, where the backend says. */
export function waitingFor(state: Executor["state"]): Failure | undefined {
  return state.phase === "ended" ? undefined : state.waiting;
}

/** Whether it will never run, whatever is waited for. */
export function isPermanent({ reason }: Failure): boolean {
  return failureKind(reason).retry === "permanent";
}

/** Whether it only waits for what may come without anybody's doing. */
export function waitsForRoom(waiting: Failure | undefined): boolean {
  return waiting !== undefined && failureKind(waiting.reason).retry === "wait";
}
