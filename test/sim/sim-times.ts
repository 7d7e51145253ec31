/**
 * Limits of the peers, as they are where nobody has changed them. Simulated time is real time: the controller and the
 * bootstrap run with the times that they have everywhere, since some of them stand beside what they belong to and
 * could not be made shorter together.
 */
export const simLimits = {
  /** Gitea's: a task of which it hears nothing, and one that takes too long; how often it looks. */
  zombieMs: 10 * 60_000,
  endlessMs: 180 * 60_000,
  sweepMs: 60_000,
  /** JetStream's. */
  ackWaitMs: 60_000,
  duplicateWindowMs: 60 * 60_000,
  /** A backend's for an executor. */
  timeoutMs: 240 * 60_000,
} as const;

/** How long the clients of the peers wait for an answer, as the real ones do. */
export const callTimeouts = {
  giteaMs: 10_000,
  fetchMs: 75_000,
  natsMs: 5_000,
  backendMs: 10_000,
  /** The bootstrap's own deadline for a call is as long. */
  facadeMs: 10_000,
} as const;

/** How long the Lease lasts that nobody renews, and by when its holder has noticed that it cannot. */
export const leaseTimes = { lastsMs: 15_000, renewMs: 10_000 } as const;
