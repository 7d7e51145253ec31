/** The capacity of one backend. It lives in memory only and is rebuilt from records and executors at each start. */
export type Slots = {
  /**
   * Takes a slot for an assignment, or answers true again if it has one, even when all are taken. Never waits:
   * false means full. Throws for an empty id.
   */
  acquire(id: string): boolean;
  /** Enters what holds a slot already, also beyond the capacity: then nothing is acquired until below it. */
  restore(id: string): void;
  /** Gives the slot back; an id without one is no error. */
  release(id: string): void;
  has(id: string): boolean;
  /** More are held than the capacity allows: nobody who holds one without an executor may make one. */
  isOverfull(): boolean;
  /** How many can still be acquired; 0 also when more are held than the capacity allows. */
  free(): number;
  /** The ids that hold a slot, oldest first. */
  held(): readonly string[];
  /** Calls the listener after each change of what is held; returns how to stop that. */
  onChange(listener: () => void): () => void;
};

/** Throws for a capacity that is not an integer of at least 1. Two pools share nothing. */
export function createSlots(capacity: number): Slots {
  if (!Number.isInteger(capacity) || capacity < 1)
    throw new Error(`a capacity of ${capacity} is no integer of at least 1`);
  const holders = new Set<string>();
  const listeners = new Set<() => void>();

  const changed = () => {
    for (const listener of listeners) listener();
  };
  const take = (id: string) => {
    holders.add(id);
    changed();
  };
  const free = () => Math.max(0, capacity - holders.size);

  return {
    acquire: (id) => {
      refuseEmpty(id);
      if (holders.has(id)) return true;
      if (free() === 0) return false;
      take(id);
      return true;
    },
    restore: (id) => {
      refuseEmpty(id);
      if (!holders.has(id)) take(id);
    },
    release: (id) => {
      if (holders.delete(id)) changed();
    },
    has: (id) => holders.has(id),
    free,
    isOverfull: () => holders.size > capacity,
    held: () => [...holders],
    onChange: (listener) => {
      // Its own function each time: one listener may be added twice and each return value stops one.
      const own = () => listener();
      listeners.add(own);
      return () => {
        listeners.delete(own);
      };
    },
  };
}

function refuseEmpty(id: string): void {
  if (id === "") throw new Error("a slot belongs to an assignment, its id is empty");
}
