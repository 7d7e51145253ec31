import { createWakeup } from "../platform/wakeup.ts";

/**
 * Keeps fetches and declarations apart: any number of fetches at once, a declaration alone. Gitea matches a fetch
 * by the labels that it has at that moment, so a change of labels waits for the fetches under way.
 */
export type FetchGate = {
  /** Runs when no declaration runs or waits. Rejects with the signal's reason if it is aborted before. */
  fetch<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T>;
  /** Runs when the fetches under way have ended; new ones wait for its end. One at a time. */
  declare<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T>;
};

export function createFetchGate(): FetchGate {
  const moved = createWakeup();
  const now = { fetching: 0, declaring: false };
  return {
    fetch: async (work, signal) => {
      signal.throwIfAborted();
      while (now.declaring) await moved.next(signal);
      now.fetching++;
      try {
        return await work();
      } finally {
        now.fetching--;
        moved.wake();
      }
    },
    declare: async (work, signal) => {
      signal.throwIfAborted();
      while (now.declaring) await moved.next(signal);
      now.declaring = true;
      try {
        while (now.fetching > 0) await moved.next(signal);
        return await work();
      } finally {
        now.declaring = false;
        moved.wake();
      }
    },
  };
}
