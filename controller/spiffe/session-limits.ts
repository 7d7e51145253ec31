/** How many may be open at once, of each key and of all. */
export type SessionLimits = { readonly total: number; readonly perKey: number };

export type SessionCounter = {
  /** Counts one more, or says which limit is reached and counts nothing. */
  enter(key: string): "all" | "key" | undefined;
  leave(key: string): void;
  readonly size: number;
};

/** The newest is refused: whoever works already goes on, also while somebody knocks without end. */
export function createSessionCounter({ total, perKey }: SessionLimits): SessionCounter {
  const counts = new Map<string, number>();
  let size = 0;
  return {
    enter: (key) => {
      const mine = counts.get(key) ?? 0;
      if (mine >= perKey) return "key";
      if (size >= total) return "all";
      counts.set(key, mine + 1);
      size++;
      return undefined;
    },
    leave: (key) => {
      const mine = counts.get(key);
      if (mine === undefined) return;
      if (mine === 1) counts.delete(key);
      else counts.set(key, mine - 1);
      size--;
    },
    get size() {
      return size;
    },
  };
}
