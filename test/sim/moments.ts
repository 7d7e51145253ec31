/** Points in a job's life that something can be told to happen after. Each is reached when it happens first. */
export type MomentName =
  /** Gitea has handed it out. */
  | "fetched"
  | "stored"
  | "recorded"
  /** A create has reached the backend. */
  | "created"
  | "booted"
  /** Its executor has the answer to its claim. */
  | "claimed"
  | "ran"
  /** Its executor was told that its result is taken. */
  | "delivered"
  /** Gitea was told how it ended. */
  | "told"
  | "message-gone"
  | "executor-gone"
  | "record-gone";

export type Moments = {
  reached(name: MomentName, job: number): void;
  /** Calls back when it is reached; one that was is not reached again. */
  on(name: MomentName, job: number, callback: () => void): void;
  /** After how many events of the whole world it was reached. */
  eventsAt(name: MomentName, job: number): number | undefined;
};

export function createMoments(clock: { readonly events: number }): Moments {
  const reached = new Map<string, number>();
  const waiting = new Map<string, (() => void)[]>();
  return {
    reached: (name, job) => {
      const key = `${name} ${job}`;
      if (reached.has(key)) return;
      reached.set(key, clock.events);
      for (const callback of waiting.get(key) ?? []) callback();
      waiting.delete(key);
    },
    on: (name, job, callback) => {
      const key = `${name} ${job}`;
      waiting.set(key, [...(waiting.get(key) ?? []), callback]);
    },
    eventsAt: (name, job) => reached.get(`${name} ${job}`),
  };
}
