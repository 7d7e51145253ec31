import { type Backoff, backoffMs, type Random } from "../platform/backoff.ts";
import { type Clock, type SteadyClock, systemSteadyClock } from "../platform/clock.ts";
import { describeError } from "../platform/errors.ts";
import type { Logger } from "../platform/logger.ts";
import { seenOf } from "./document.ts";
import { ApiRefusal, type KubernetesApi, type WatchEvent } from "./kubernetes-api.ts";
import { isExpired, listPages } from "./list-pages.ts";
import { createListView } from "./list-view.ts";
import { watchOnce, type WatchTimes } from "./watch-once.ts";

/** One collection, listed and watched, in memory. */
export type WatchedList = {
  /** Lists, watches, and lists again, through outages of whatever length. Rejects with the signal's reason. */
  run(signal: AbortSignal): Promise<void>;
  /** As they were last seen: the same array as long as nothing has changed. Empty before the first list. */
  documents(): readonly unknown[];
  /**
   * Calls the listener for each change, after the view has it; returns how to stop that. An object that vanished
   * unseen is told as DELETED with its last state. What the listener throws is logged.
   */
  onChange(listener: (event: WatchEvent) => void): () => void;
  /**
   * Milliseconds since the view was known to be current: a list, an event or a bookmark; undefined: never yet. A
   * server sends bookmarks about once a minute, but may have none to send as long as nothing happens.
   */
  ageMs(): number | undefined;
};

export type WatchedListTimes = WatchTimes & {
  /** A whole list as often as this, whatever the watch says. */
  readonly relistMs: number;
  /** After a failure. */
  readonly retry: Backoff;
  /** A watch that the server ends sooner counts as a failure. */
  readonly shortWatchMs: number;
};

export const defaultWatchedListTimes: WatchedListTimes = {
  watchMs: { least: 300_000, most: 600_000 },
  silentMs: 90_000,
  relistMs: 300_000,
  retry: { firstMs: 500, maxMs: 10_000 },
  shortWatchMs: 5_000,
};

export type WatchedListOptions = {
  readonly api: Pick<KubernetesApi, "call" | "watch">;
  /** Of the collection, such as `/api/v1/namespaces/x/pods`. */
  readonly path: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  /** Makes less of each object before it is kept and told. */
  readonly keep?: (document: unknown) => unknown;
  readonly pageSize?: number;
  readonly clock: Clock;
  readonly steady?: SteadyClock;
  readonly random: Random;
  readonly log: Logger;
  readonly times?: WatchedListTimes;
};

const defaultPageSize = 250;
/** However long the server wants to be left alone. */
const longestRetryAfterMs = 60_000;

/** Nothing is listed or watched before `run`. */
export function createWatchedList(options: WatchedListOptions): WatchedList {
  const { api, path, clock, random, times = defaultWatchedListTimes } = options;
  const { keep = (document) => document, steady = systemSteadyClock, pageSize = defaultPageSize } = options;
  const log = options.log.child({ path });
  const { labelSelector, fieldSelector } = options;
  const selectors = {
    ...(labelSelector === undefined ? {} : { labelSelector }),
    ...(fieldSelector === undefined ? {} : { fieldSelector }),
  };

  const view = createListView();
  const listeners = new Set<(event: WatchEvent) => void>();
  /** From where to watch; undefined: a list comes first. */
  let version: string | undefined;
  let currentAt: number | undefined;
  let relistAt = 0;
  const failures = { list: 0, watch: 0 };
  let troubled = false;
  let expiredBefore = false;

  const tell = (events: readonly WatchEvent[]) => {
    for (const event of events)
      for (const listener of listeners)
        try {
          listener(event);
        } catch (error) {
          log.error({ error: describeError(error) }, "a listener of a watched list failed");
        }
  };

  const isCurrent = (at: number) => {
    currentAt = at;
    if (troubled) log.info({}, "a watched list is current again");
    troubled = false;
  };

  const list = async (signal: AbortSignal) => {
    const beganAt = steady();
    // After a failure too: as long as there is a view, the watch can go on without a list.
    relistAt = beganAt + times.relistMs;
    try {
      const whole = await listPages({ api, path, query: selectors, pageSize, keep }, signal);
      failures.list = 0;
      version = whole.resourceVersion;
      isCurrent(beganAt);
      tell(view.replace(whole.seen));
    } catch (error) {
      failures.list++;
      throw error;
    }
  };

  const take = (event: WatchEvent) => {
    isCurrent(steady());
    const seen = seenOf(event.object, keep);
    if (seen.resourceVersion !== "") version = seen.resourceVersion;
    if (event.type !== "BOOKMARK" && seen.name !== "") tell(view.apply(event.type, seen));
  };

  const watch = async (resourceVersion: string, signal: AbortSignal) => {
    const beganAt = steady();
    const watched = { api, path, query: selectors, resourceVersion, clock, steady, random, times };
    try {
      const why = await watchOnce({ ...watched, endAt: relistAt }, take, signal);
      // Whether nothing happened or nothing gets through, a list tells.
      if (why === "silent") relistAt = steady();
      if (why === "ended" && steady() - beganAt < times.shortWatchMs) throw new Error("it ended at once");
      failures.watch = 0;
      expiredBefore = false;
    } catch (error) {
      failures.watch++;
      if (isExpired(error)) version = undefined;
      throw error;
    }
  };

  /** A list if one is due, and a watch until that is over. */
  const round = async (signal: AbortSignal) => {
    if (version === undefined || steady() >= relistAt)
      try {
        await list(signal);
      } catch (error) {
        if (signal.aborted || version === undefined) throw error;
        troubled = true;
        log.warn({ error: describeError(error) }, "listing anew failed, watching on");
      }
    if (version !== undefined) await watch(version, signal);
  };

  const pause = async (error: unknown, signal: AbortSignal) => {
    troubled = true;
    const asked = error instanceof ApiRefusal ? (error.retryAfterMs ?? 0) : 0;
    const again = backoffMs(Math.max(failures.list, failures.watch), times.retry, random);
    const ms = Math.max(again, Math.min(asked, longestRetryAfterMs));
    log.warn({ error: describeError(error), retryMs: Math.round(ms) }, "a watched list is not current");
    try {
      await clock.sleep(ms, signal);
    } catch {
      // The end has come, which the loop sees.
    }
  };

  return {
    run: async (signal) => {
      while (!signal.aborted) {
        try {
          await round(signal);
        } catch (error) {
          // What a server keeps of the past has gone by: usual after an outage, and a list helps at once.
          const usual = isExpired(error) && failures.list === 0 && !expiredBefore;
          expiredBefore = isExpired(error);
          if (!signal.aborted && !usual) await pause(error, signal);
        }
      }
      throw signal.reason;
    },
    documents: () => view.all(),
    onChange: (listener) => {
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
      };
    },
    ageMs: () => (currentAt === undefined ? undefined : steady() - currentAt),
  };
}
