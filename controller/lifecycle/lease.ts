/**
 * Who leads, by a Lease of Kubernetes: decisions only. The rules are those of client-go's leader election
 * (k8s.io/client-go/tools/leaderelection), so that any holder of such a Lease can be told apart from a dead one:
 * - Clocks are never compared. A follower takes over when the Lease has said the same for as long as it lasts, counted
 *   by the follower's own clock from when it first saw it say so.
 * - A leader counts from before it sent its last write that was accepted, and stops well before any follower that saw
 *   that write could take over.
 * One rule is not theirs: a Lease that somebody deleted is free no sooner than it would have been without that.
 */
export type LeaseTimes = {
  /** A Lease that says the same for this long has no living holder. */
  readonly durationMs: number;
  /** A leader that could not renew for this long leads no more. */
  readonly renewDeadlineMs: number;
  /** From one look, or one renewal, to the next. */
  readonly retryMs: number;
};

export const defaultLeaseTimes: LeaseTimes = { durationMs: 15_000, renewDeadlineMs: 10_000, retryMs: 2_000 };

/** The `spec` of a Lease. The times in it are for people. */
export type LeaseRecord = {
  /** Empty: released. */
  readonly holder: string;
  readonly durationSeconds: number;
  /** RFC 3339. */
  readonly acquireTime: string;
  readonly renewTime: string;
  /** How often another holder took over. */
  readonly transitions: number;
};

export type StoredLease = {
  readonly record: LeaseRecord;
  /** Changes with every write; a write names the version that it replaces. */
  readonly version: string;
};

type SeenLease = StoredLease & { readonly since: number };

/** What one process knows. Times are milliseconds of its own steady clock. */
export type LeaseView = {
  readonly identity: string;
  /** What the Lease said last, and since when we have seen it say so; undefined: there was none. */
  readonly seen?: SeenLease;
  /** What it said before somebody deleted it: its holder may not know of that yet. */
  readonly deleted?: SeenLease;
  /** Before our last write that was accepted was sent; undefined: we have never led. */
  readonly renewedAt?: number;
};

/** What the Lease says now. A write that changes nothing in the record, such as a label's, is no sign of life. */
export function observe(view: LeaseView, stored: StoredLease | undefined, now: number): LeaseView {
  const { seen, deleted, ...rest } = view;
  if (stored === undefined) {
    const last = seen ?? deleted;
    return last === undefined ? rest : { ...rest, deleted: last };
  }
  const since = seen !== undefined && sameRecord(seen.record, stored.record) ? seen.since : now;
  return { ...rest, seen: { ...stored, since } };
}

/** Our write was accepted. `sentAt`: taken before it was sent. */
export function wrote(view: LeaseView, stored: StoredLease, sentAt: number, now: number): LeaseView {
  return { ...observe(view, stored, now), renewedAt: sentAt };
}

export type LeaseMove =
  /** Nobody holds it, or it is ours: write `recordOf`, over the version that was seen. */
  | { readonly do: "write" }
  /** Somebody holds it: not before this long can it be taken. */
  | { readonly do: "wait"; readonly ms: number }
  /** We led, and do so no more. Final. */
  | { readonly do: "lost"; readonly why: string };

/** What to do after the Lease was looked at. */
export function nextLeaseMove(view: LeaseView, now: number, times: LeaseTimes): LeaseMove {
  const { identity, seen, deleted, renewedAt } = view;
  if (renewedAt !== undefined) {
    const holder = seen?.record.holder;
    if (msLeft(view, now, times) <= 0)
      return { do: "lost", why: `it could not be renewed for ${times.renewDeadlineMs / 1000} s` };
    return holder === undefined || holder === identity
      ? { do: "write" }
      : { do: "lost", why: holder === "" ? "somebody released it" : `${holder} has taken it` };
  }
  const last = seen ?? deleted;
  const holder = last?.record.holder;
  if (last === undefined || holder === "" || holder === identity) return { do: "write" };
  const lasts = Math.max(last.record.durationSeconds * 1000, times.durationMs);
  const ms = last.since + lasts - now;
  return ms > 0 ? { do: "wait", ms } : { do: "write" };
}

/** For how long this process may still act as leader without another renewal; never positive if it does not lead. */
export function msLeft({ renewedAt }: LeaseView, now: number, times: LeaseTimes): number {
  return renewedAt === undefined ? 0 : renewedAt + times.renewDeadlineMs - now;
}

/** What a leader writes. `wallNow` in milliseconds since the epoch. */
export function recordOf({ identity, seen }: LeaseView, wallNow: number, times: LeaseTimes): LeaseRecord {
  const renewTime = new Date(wallNow).toISOString();
  const before = seen?.record;
  const goesOn = before?.holder === identity;
  return {
    holder: identity,
    durationSeconds: Math.ceil(times.durationMs / 1000),
    acquireTime: goesOn ? before.acquireTime : renewTime,
    renewTime,
    transitions: before === undefined ? 0 : before.transitions + (goesOn ? 0 : 1),
  };
}

/** What a leader writes at its end, so that the next one need not wait; undefined if it is not ours to release. */
export function releasedRecord({ identity, seen }: LeaseView, wallNow: number): LeaseRecord | undefined {
  if (seen?.record.holder !== identity) return undefined;
  const renewTime = new Date(wallNow).toISOString();
  // Its holder is empty, so nobody counts its duration; Kubernetes wants a positive one.
  return { ...seen.record, holder: "", durationSeconds: 1, acquireTime: renewTime, renewTime };
}

function sameRecord(a: LeaseRecord, b: LeaseRecord): boolean {
  return (
    a.holder === b.holder &&
    a.durationSeconds === b.durationSeconds &&
    a.acquireTime === b.acquireTime &&
    a.renewTime === b.renewTime &&
    a.transitions === b.transitions
  );
}
