/** Runs works of one key one after the other, in the order in which they came; other keys do not wait. */
export type KeyedQueue = {
  /** Settles as the work does; a work that fails does not stop the ones behind it. */
  run<T>(key: string, work: () => Promise<T>): Promise<T>;
  /** Works that run or wait, over all keys. */
  readonly size: number;
};

export function createKeyedQueue(): KeyedQueue {
  const tails = new Map<string, Promise<unknown>>();
  let size = 0;
  const run = async <T>(key: string, work: () => Promise<T>): Promise<T> => {
    const before = tails.get(key) ?? Promise.resolve();
    const mine = before.then(work, work);
    tails.set(key, mine);
    size++;
    try {
      return await mine;
    } finally {
      size--;
      if (tails.get(key) === mine) tails.delete(key);
    }
  };
  return {
    run,
    get size() {
      return size;
    },
  };
}
