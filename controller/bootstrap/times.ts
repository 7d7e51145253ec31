/** How long the bootstrap waits for what, in milliseconds. */
export type Times = {
  /** For the SVID that names the job. */
  readonly identity: number;
  /** From the start to the claim; then the controller tries another attempt anyway. */
  readonly start: number;
  /**
   * For the answer to the claim. It may be recorded though no answer comes, and then nobody else will ever run the job;
   * if it is not, the controller tries another attempt, and refuses this one.
   */
  readonly claim: number;
  /** Between two probes of a facade that does not answer yet, and for each of them. */
  readonly probeEvery: number;
  readonly probe: number;
  /** For any other call to the facade; after it the connection is dialled anew. */
  readonly call: number;
  /** Between two tries of a call that must be answered. */
  readonly retryEvery: number;
  /** The longest silence towards the facade while the job runs. */
  readonly beatEvery: number;
  /** For `gitea-job-started`: it may start a Docker engine. */
  readonly jobStarted: number;
  /** For gitea-runner to report and end after it was told to stop. */
  readonly stopGrace: number;
  /** For what a step has started, from SIGTERM to SIGKILL, when the job was cancelled. */
  readonly orphanGrace: number;
  /**
   * For the facade's answer to a state, while gitea-runner waits: a cancel comes with it, and gitea-runner asks again
   * up to 10 s later only.
   */
  readonly answer: number;
  /** For room in a full spool, while gitea-runner waits: it gives up a call after 10 s at its end. */
  readonly room: number;
  /** For the log rows before a result: they must not hold it up for longer. */
  readonly logs: number;
  /** For what is not delivered yet when gitea-runner has ended: longer than an upgrade of the controller. */
  readonly deliver: number;
};

export const defaultTimes: Times = {
  identity: 120_000,
  start: 600_000,
  claim: 600_000,
  probeEvery: 250,
  probe: 2_000,
  call: 10_000,
  retryEvery: 1_000,
  beatEvery: 10_000,
  jobStarted: 300_000,
  stopGrace: 300_000,
  orphanGrace: 5_000,
  answer: 2_000,
  room: 5_000,
  logs: 120_000,
  deliver: 600_000,
};
