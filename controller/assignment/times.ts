/** Every time by which something is given up, repeated or ended, in milliseconds. Tests may shorten them. */
export type Times = {
  /** Deliveries in hand are reported as in progress this often; the queue's ack wait is four times as long. */
  readonly inProgressMs: number;
  /** A delivery comes back after this when it only has to be looked at again … */
  readonly againMs: number;
  /** … and after this when something failed. */
  readonly retryMs: number;
  /** A delivery waits this long for its executor's claim before it is reported and looked at afresh. */
  readonly claimMs: number;
  /** Gitea hears of each unclaimed task this often. */
  readonly beatMs: number;
  /** An executor that runs and does not claim its task within this is replaced … */
  readonly startMs: number;
  /** … and one that does not even run (no node for it, no quota) within this. */
  readonly pendingMs: number;
  /** An executor whose task is over ends by itself within this, or is killed. */
  readonly terminalGraceMs: number;
  /** The reconciler looks at everything at least this often. */
  readonly reconcileMs: number;
  /** A single call to a backend, Gitea or the queue made by a loop of ours. */
  readonly callMs: number;
};

export const defaultTimes: Times = {
  inProgressMs: 15_000,
  againMs: 2_000,
  retryMs: 15_000,
  claimMs: 4 * 60_000,
  beatMs: 12_000,
  startMs: 10 * 60_000,
  pendingMs: 60 * 60_000,
  terminalGraceMs: 60_000,
  reconcileMs: 5_000,
  callMs: 30_000,
};

/** Executors tried for one assignment, all dead before the claim, before the task fails. */
export const maxAttempts = 3;
