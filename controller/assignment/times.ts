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
  /** After the first lost attempt the next one waits this long, after the second one twice as long, and so on. */
  readonly attemptDelayMs: number;
  /** A claimed executor of which the facade hears nothing for this long has failed. */
  readonly silenceMs: number;
  /** After a cancel the job's last steps may run this long. */
  readonly cancelGraceMs: number;
  /**
   * An executor whose result is stored, and not with Gitea yet, ends by itself within this, or is killed. Longer than
   * the bootstrap tries to deliver what it still holds (`deliver` in its own table): that are the log's last rows.
   */
  readonly resultGraceMs: number;
  /** An executor whose task is over ends by itself within this, or is killed. */
  readonly terminalGraceMs: number;
  /**
   * Where nobody sees an executor end, it has when its task is over and it has said nothing for this long. It speaks
   * every 10 s as long as it has anything to deliver.
   */
  readonly quietMs: number;
  /** A claimed executor that no list shows, and that nobody has heard of, for this long is gone. */
  readonly absentMs: number;
  /** An executor that is still there this long after it was to be ended or deleted holds no slot any more. */
  readonly lingerMs: number;
  /** Gitea ends what takes longer than this from the fetch on (its `ENDLESS_TASK_TIMEOUT`). */
  readonly endlessMs: number;
  /** An executor's deadline stays this much below what is left of that. */
  readonly endlessMarginMs: number;
  /** A task that cannot get this much time to run any more is failed. */
  readonly minimumRunMs: number;
  /** An executor that lives for this long after its deadline is failed by us: its backend should have ended it. */
  readonly deadlineMarginMs: number;
  /** What Gitea could not be told within this it does not want to know: it has long ended the task by itself. */
  readonly reportGiveUpMs: number;
  /** Jobs of a runner that Gitea does not know any more go on this long; nobody can be told how they end. */
  readonly unregisteredMs: number;
  /** The reconciler looks at everything at least this often. */
  readonly reconcileMs: number;
  /** The stream is compared with what should be in it this often. */
  readonly compareStreamMs: number;
  /** A single call to a backend, Gitea or the queue made by a loop of ours. */
  readonly callMs: number;
};

const minute = 60_000;

export const defaultTimes: Times = {
  inProgressMs: 15_000,
  againMs: 2_000,
  retryMs: 15_000,
  claimMs: 4 * minute,
  beatMs: 12_000,
  startMs: 10 * minute,
  pendingMs: 60 * minute,
  attemptDelayMs: 10_000,
  silenceMs: 5 * minute,
  cancelGraceMs: 5 * minute,
  resultGraceMs: 11 * minute,
  terminalGraceMs: minute,
  quietMs: 22_000,
  absentMs: 30_000,
  lingerMs: 5 * minute,
  endlessMs: 180 * minute,
  endlessMarginMs: 5 * minute,
  minimumRunMs: 10 * minute,
  deadlineMarginMs: minute,
  reportGiveUpMs: 24 * 60 * minute,
  unregisteredMs: 10 * minute,
  reconcileMs: 5_000,
  compareStreamMs: 30_000,
  callMs: 30_000,
};

/** Executors tried for one assignment, all dead before the claim, before the task fails. */
export const maxAttempts = 3;
