/**
 * The tasks version shared by all fetchers. Gitea looks for a task only if the version it is sent is not its
 * latest; 0 makes it look in any case. The known version only grows; sending 0 is our own decision.
 */
export type TasksVersion = {
  /** What the next fetch sends. */
  next(now: number): { readonly version: bigint; readonly epoch: number };
  /** A fetch that began in `epoch` was answered without a task. */
  answered(epoch: number, version: bigint): void;
  /** Something may be waiting that no new version tells: a task came, a place is free, labels were declared. */
  lookAgain(): void;
};

/** Gitea may answer "nothing" after a lost race without a new version ever coming: look at least this often. */
const safetyLookMs = 30_000;

export function createTasksVersion(): TasksVersion {
  let known = 0n;
  let looking = true;
  let epoch = 0;
  let lookedAt = 0;
  return {
    next: (now) => {
      if (now - lookedAt >= safetyLookMs) looking = true;
      if (looking) lookedAt = now;
      return { version: looking ? 0n : known, epoch };
    },
    answered: (of, version) => {
      if (version > known) known = version;
      // Gitea counts from 1; 0 comes back from a server that was too busy to look.
      if (of === epoch && version !== 0n) looking = false;
    },
    lookAgain: () => {
      epoch++;
      looking = true;
    },
  };
}
