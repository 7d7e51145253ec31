import { ErrorCode, NatsError } from "nats";
import { backoffMs, type Random } from "../platform/backoff.ts";
import type { Clock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import type { Logger } from "../platform/logger.ts";
import { NatsDisconnectedError, type NatsLink } from "../platform/nats-connection.ts";
import { isAbortOf } from "../platform/signal.ts";
import { createWakeup } from "../platform/wakeup.ts";
import { aboutOf, encodeEvent, type RunnerEvent } from "./event.ts";
import { createLosses } from "./losses.ts";

/** History for people. Nothing that the controller does depends on it, and nothing waits for it. */
export type EventLog = {
  /** Takes an event, to be stored when that is possible. Returns at once, never throws. */
  publish(event: RunnerEvent): void;
  /**
   * Stores what was published, one after the other, until the signal is aborted; then what is left, for `drainMs`
   * at most. One run at a time. Outages are waited for; rejects for nothing.
   */
  run(signal: AbortSignal): Promise<void>;
  /** For metrics: how many wait now, how many were lost since the process began. */
  figures(): { readonly waiting: number; readonly dropped: number };
};

export type EventLogOptions = {
  readonly link: Pick<NatsLink, "nats" | "exchange">;
  /** The event stream's name: events go nowhere else, whoever listens to their subjects. */
  readonly stream: string;
  /** Where an assignment's or a backend's events are published. */
  readonly subject: (about: string) => string;
  /** The controller's `HOSTNAME`. */
  readonly controller: string;
  /** Random, made anew for each process: message ids begin with it. */
  readonly instance: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  readonly limits?: Partial<EventLogLimits>;
};

export type EventLogLimits = {
  /** Events that may wait; when there is one more, the oldest goes. */
  readonly waiting: number;
  /** How long an answer of the server may take. */
  readonly requestMs: number;
  /** A stream that refuses events for this long is taken for lost, and so are the events. */
  readonly patienceMs: number;
  /** How long the last events are tried at the end. */
  readonly drainMs: number;
};

/** A few kilobytes of JSON for each of a thousand assignments. */
const defaultLimits: EventLogLimits = {
  waiting: 5_000,
  requestMs: 5_000,
  patienceMs: 10_000,
  drainMs: 3_000,
};

const backoff = { firstMs: 250, maxMs: 5_000 };

type Waiting = { readonly id: string; readonly subject: string; readonly data: Uint8Array };

/**
 * An event is tried again under the same message id until the server confirms it, so that it is stored once; the
 * next one waits for it, so that the order is kept. While NATS is away or does not answer, events wait; their number
 * is the bound. A stream that is not there, or refuses, is something else: after some patience all that wait are
 * dropped and counted, and each later one is tried once until one is taken.
 */
export function createEventLog(options: EventLogOptions): EventLog {
  const { link, stream, subject, controller, instance, clock, random, log } = options;
  const limits = { ...defaultLimits, ...options.limits };
  const losses = createLosses(log);
  const added = createWakeup();
  const waiting: Waiting[] = [];
  /** The one that is being stored: it is not dropped for a newer one, because it may be stored already. */
  let current: Waiting | undefined;
  let number = 0;
  /** Since when the stream has refused every event. */
  let refusedSince: number | undefined;

  const left = () => waiting.length + (current === undefined ? 0 : 1);

  const loseAll = (why: string) => {
    losses.lost(left(), why);
    waiting.length = 0;
    current = undefined;
  };

  const store = async ({ id, subject: to, data }: Waiting, signal: AbortSignal) => {
    const publishing = { msgID: id, expect: { streamName: stream }, timeout: limits.requestMs };
    await link.exchange(() => link.nats.jetstream().publish(to, data, publishing), signal);
  };

  /** Resolves when nothing waits any more; rejects with the signal's reason only. */
  const storeAll = async (signal: AbortSignal) => {
    for (let failures = 0; ;) {
      current ??= waiting.shift();
      if (current === undefined) return;
      try {
        await store(current, signal);
        current = undefined;
        refusedSince = undefined;
        failures = 0;
        if (waiting.length === 0) losses.over();
        continue;
      } catch (error) {
        signal.throwIfAborted();
        failures++;
        refusedSince = isOpen(error) ? undefined : (refusedSince ?? clock.now());
        if (refusedSince !== undefined && clock.now() - refusedSince >= limits.patienceMs)
          loseAll(describeError(error));
      }
      if (current !== undefined) await clock.sleep(backoffMs(failures, backoff, random), signal);
    }
  };

  const drain = async () => {
    const [late, done] = [new AbortController(), new AbortController()];
    const expire = () => {
      late.abort();
    };
    const timer = clock.sleep(limits.drainMs, done.signal).then(expire, () => undefined);
    try {
      await storeAll(late.signal);
    } catch (error) {
      if (!isAbortOf(late.signal, error)) throw error;
      loseAll("they could not be stored before the end");
    } finally {
      done.abort();
      await timer;
    }
  };

  return {
    publish: (event) => {
      try {
        const data = Buffer.from(encodeEvent(event, { at: clock.now(), controller }));
        waiting.push({ id: `${instance}-${++number}`, subject: subject(aboutOf(event)), data });
      } catch (error) {
        // A mistake of ours in the history must not become the job's.
        losses.lost(1, describeError(error));
        return;
      }
      const excess = waiting.splice(0, waiting.length - limits.waiting);
      losses.lost(excess.length, `more than ${limits.waiting} wait`);
      added.wake();
    },
    run: async (signal) => {
      try {
        while (!signal.aborted) {
          await storeAll(signal);
          // Something may have come since storeAll had its last look; a wake-up is not kept.
          if (waiting.length === 0) await added.next(signal);
        }
      } catch (error) {
        if (!isAbortOf(signal, error)) throw error;
      }
      await drain();
    },
    figures: () => ({ waiting: left(), dropped: losses.total() }),
  };
}

/** Everything else is the answer of a server that does not take the event, or a mistake of ours. */
function isOpen(error: unknown): boolean {
  return (
    error instanceof NatsDisconnectedError || (error instanceof NatsError && openOutcomes.has(error.code))
  );
}

const openOutcomes: ReadonlySet<string> = new Set([
  ErrorCode.Timeout,
  ErrorCode.ConnectionClosed,
  ErrorCode.ConnectionDraining,
]);
