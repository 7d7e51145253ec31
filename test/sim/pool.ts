import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** What is worked on in processes of their own, some at a time, in the order of the keys. */
export type Pool<Key, Result> = {
  /** Begins. `work` gets a folder that all of them may use, and a signal that is aborted at the end. */
  start(work: (key: Key, cache: string, signal: AbortSignal) => Promise<Result>): Promise<void>;
  /** Settles as the work on this key does. */
  result(key: Key): Promise<Result>;
  /** Ends what runs still, and removes the folder. */
  end(): Promise<void>;
};

/** As many as there are processors on the machines that these tests are made for. */
const atATime = 2;

export function createPool<Key, Result>(keys: readonly Key[]): Pool<Key, Result> {
  const results = new Map(keys.map((key) => [key, Promise.withResolvers<Result>()]));
  // Nobody may wait yet, or ever, when one fails.
  for (const { promise } of results.values()) promise.catch(() => undefined);
  const stop = new AbortController();
  let cache: string | undefined;
  let running: Promise<unknown> = Promise.resolve();

  return {
    start: async (work) => {
      const folder = await mkdtemp(join(tmpdir(), "sim-cache-"));
      cache = folder;
      const queue = [...results];
      const workOff = async () => {
        for (let next = queue.shift(); next !== undefined && !stop.signal.aborted; next = queue.shift()) {
          const [key, { resolve, reject }] = next;
          await work(key, folder, stop.signal).then(resolve, reject);
        }
      };
      running = Promise.all(Array.from({ length: atATime }, workOff));
    },
    result: (key) => results.get(key)?.promise ?? Promise.reject(new Error("nobody works on that")),
    end: async () => {
      stop.abort();
      await running;
      if (cache !== undefined) await rm(cache, { recursive: true, force: true });
    },
  };
}
