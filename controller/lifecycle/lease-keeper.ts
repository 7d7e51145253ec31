import type { Random } from "../platform/backoff.ts";
import type { Clock, SteadyClock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import type { Logger } from "../platform/logger.ts";
import { isAbortOf, withDeadline } from "../platform/signal.ts";
import {
  type LeaseRecord,
  type LeaseTimes,
  type LeaseView,
  msLeft,
  nextLeaseMove,
  observe,
  recordOf,
  releasedRecord,
  type StoredLease,
  wrote,
} from "./lease.ts";

/** One Lease in Kubernetes, as far as it is needed. Calls reject if there is no answer, or none that helps. */
export type LeasePort = {
  /** Undefined: there is none. */
  get(signal: AbortSignal): Promise<StoredLease | undefined>;
  /** Undefined: somebody else has made it first. */
  create(record: LeaseRecord, signal: AbortSignal): Promise<StoredLease | undefined>;
  /** Undefined: it is not at that version any more. */
  update(record: LeaseRecord, version: string, signal: AbortSignal): Promise<StoredLease | undefined>;
};

export type LeaseKeeperOptions = {
  readonly port: LeasePort;
  /** No two processes have the same: each would take the other's Lease for its own. */
  readonly identity: string;
  readonly clock: Clock;
  readonly steady: SteadyClock;
  readonly random: Random;
  readonly log: Logger;
  readonly times: LeaseTimes;
};

export type LeaseKeeper = {
  /** Waits until the Lease is ours, through outages of whatever length. */
  acquire(signal: AbortSignal): Promise<void>;
  /** Renews it; resolves with why it is not ours any more, by the renew deadline at the latest. */
  renew(signal: AbortSignal): Promise<string>;
  /** For how long it is certainly ours without another renewal. */
  msLeft(): number;
  /** Whether it has not been renewed for so long that another one may have taken it by now. */
  mayBeTaken(): boolean;
  /** Resolves when the API has said whose it is, whoever that is. */
  ask(signal: AbortSignal): Promise<void>;
  /** Lets the next one begin at once, if it is still ours. Rejects if the API does not answer. */
  release(signal: AbortSignal): Promise<void>;
};

/** Followers look a little later each, so that they do not meet: client-go's JitterFactor. */
const jitter = 1.2;

export function createLeaseKeeper(options: LeaseKeeperOptions): LeaseKeeper {
  const { port, clock, steady, random, log, times } = options;
  let view: LeaseView = { identity: options.identity };

  /** No call takes longer than half of the renew deadline, so that another one has time. */
  const call = <T>(limitMs: number, work: (signal: AbortSignal) => Promise<T>, signal: AbortSignal) =>
    withDeadline(clock, Math.max(1, Math.min(times.renewDeadlineMs / 2, limitMs)), work, signal);

  const look = async (limitMs: number, signal: AbortSignal) => {
    const stored = await call(limitMs, (deadline) => port.get(deadline), signal);
    view = observe(view, stored, steady());
  };

  /** Whether it was accepted. An answer that comes after its time counts from when the write was sent all the same. */
  const write = async (record: LeaseRecord, limitMs: number, signal: AbortSignal): Promise<boolean> => {
    const { seen } = view;
    const sentAt = steady();
    const stored = await call(
      limitMs,
      (deadline) =>
        seen === undefined ? port.create(record, deadline) : port.update(record, seen.version, deadline),
      signal,
    );
    if (stored !== undefined) view = wrote(view, stored, sentAt, steady());
    return stored !== undefined;
  };

  const warn = (error: unknown, signal: AbortSignal) => {
    if (isAbortOf(signal, error)) throw error;
    log.warn({ error: describeError(error) }, "the Lease cannot be read or written");
  };

  return {
    acquire: async (signal) => {
      let told: string | undefined;
      for (;;) {
        let waitMs = times.retryMs * (1 + jitter * random());
        try {
          await look(Infinity, signal);
          const move = nextLeaseMove(view, steady(), times);
          if (move.do === "wait") {
            waitMs = Math.min(waitMs, move.ms);
            const holder = (view.seen ?? view.deleted)?.record.holder;
            if (holder !== told) log.info({ holder }, "another controller leads, waiting for its Lease");
            told = holder;
          } else if (await write(recordOf(view, clock.now(), times), Infinity, signal)) {
            if (msLeft(view, steady(), times) > 0) return;
            // It stood still meanwhile. It has not led yet, so it may begin anew.
            const { renewedAt: _, ...rest } = view;
            view = rest;
          }
        } catch (error) {
          warn(error, signal);
        }
        await clock.sleep(waitMs, signal);
      }
    },
    renew: async (signal) => {
      for (;;) {
        await clock.sleep(Math.min(times.retryMs, Math.max(0, msLeft(view, steady(), times))), signal);
        const left = msLeft(view, steady(), times);
        try {
          if (left > 0 && !(await write(recordOf(view, clock.now(), times), left, signal)))
            await look(msLeft(view, steady(), times), signal);
        } catch (error) {
          warn(error, signal);
        }
        const move = nextLeaseMove(view, steady(), times);
        if (move.do === "lost") return move.why;
      }
    },
    msLeft: () => msLeft(view, steady(), times),
    mayBeTaken: () => msLeft(view, steady(), times) <= times.renewDeadlineMs - times.durationMs,
    ask: async (signal) => {
      for (;;) {
        try {
          return await look(Infinity, signal);
        } catch (error) {
          warn(error, signal);
        }
        await clock.sleep(times.retryMs, signal);
      }
    },
    release: async (signal) => {
      // A renewal that nobody waits for any more may have been accepted.
      for (let tries = 0; tries < 2; tries++) {
        const record = releasedRecord(view, clock.now());
        if (record === undefined || (await write(record, Infinity, signal))) return;
        await look(Infinity, signal);
      }
    },
  };
}
