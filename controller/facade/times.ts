/**
 * How long an answer to an executor waits for what, in milliseconds: its bootstrap gives a call up after 10 s, and
 * what it repeats then waits behind the call that it has given up.
 */
export const answerTimes = {
  /** For a report of a running job to reach Gitea. */
  giteaMs: 7_000,
  /** For what is worth recording, but would not hold up a beat: the next one says it again. */
  noteMs: 2_000,
  /** For a result to be stored; the next try goes on where this one stopped. */
  storeMs: 4_000,
  /** For Gitea to be told of a result that is stored: later it is told without the executor. */
  deliverMs: 4_000,
  /** For Gitea to hear that the job is there, while its result cannot be stored. */
  spareMs: 3_000,
} as const;
