import type { Random } from "../platform/backoff.ts";
import type { Clock, SteadyClock } from "../platform/clock.ts";
import type { KubernetesApi, WatchEvent } from "./kubernetes-api.ts";

export type WatchTimes = {
  /** The server ends a watch after a time between these two, so that not all watches end at once. */
  readonly watchMs: { readonly least: number; readonly most: number };
  /**
   * A watch that says nothing for so long, not even a bookmark, is over: its other end may be gone. Servers send
   * bookmarks once a minute, if there is anything new.
   */
  readonly silentMs: number;
};

export type WatchOnceOptions = {
  readonly api: Pick<KubernetesApi, "watch">;
  readonly path: string;
  /** Selectors. */
  readonly query: Readonly<Record<string, string>>;
  readonly resourceVersion: string;
  /** By the steady clock: when it has to be over. */
  readonly endAt: number;
  readonly clock: Clock;
  readonly steady: SteadyClock;
  readonly random: Random;
  readonly times: WatchTimes;
};

/**
 * One watch. Resolves with why it is over: the server has ended it, it was silent, or `endAt` has come. Rejects as
 * KubernetesApi does.
 */
export async function watchOnce(
  options: WatchOnceOptions,
  take: (event: WatchEvent) => void,
  signal: AbortSignal,
): Promise<"ended" | "silent" | "due"> {
  const { api, path, clock, steady, random, times } = options;
  const { least, most } = times.watchMs;
  const over = new AbortController();
  let heardAt = steady();

  const left = () => Math.min(heardAt + times.silentMs, options.endAt) - steady();
  /** A timer for all events, not one for each. */
  const endInTime = async () => {
    for (let ms = left(); ms > 0; ms = left()) await clock.sleep(ms, over.signal);
    over.abort();
  };
  // Rejects when the watch has ended before.
  endInTime().catch(() => undefined);

  const query = {
    ...options.query,
    resourceVersion: options.resourceVersion,
    allowWatchBookmarks: "true",
    timeoutSeconds: String(Math.ceil((least + random() * (most - least)) / 1000)),
  };
  try {
    for await (const event of api.watch(path, query, AbortSignal.any([signal, over.signal]))) {
      heardAt = steady();
      take(event);
    }
    return "ended";
  } catch (error) {
    signal.throwIfAborted();
    if (over.signal.aborted) return steady() < options.endAt ? "silent" : "due";
    throw error;
  } finally {
    over.abort();
  }
}
