/** Who is to get which identity. */
export type Workload = {
  /** The executor's. */
  readonly name: string;
  readonly spiffeId: string;
  /** The uid that its processes have; null: the controller's own. */
  readonly uid: number | null;
};

/**
 * How executors get their identities: the SPIFFE Workload API tells workloads apart, a registration tells it how.
 * All calls may be repeated. They reject with a retryable BackendError, or whatever else, when another try may help.
 */
export type Registration = {
  /** The folder of the sockets: executors must be able to pass through. */
  readonly folder: string;
  /** The path of the socket where an executor asks for its identity. Throws for what is no name of one. */
  socket(name: string): string;
  /** Uids that no new executor may get, because the Workload API may still take its processes for somebody else. */
  reservedUids(signal: AbortSignal): Promise<ReadonlySet<number>>;
  add(workload: Workload, signal: AbortSignal): Promise<void>;
  remove(workload: Pick<Workload, "name" | "uid">, signal: AbortSignal): Promise<void>;
  /**
   * Removes registrations of ours that have no executor any more, and resolves to their names. `executors` is asked
   * after the registrations were listed: an executor is there before its registration is.
   */
  sweep(executors: () => Promise<readonly string[]>, signal: AbortSignal): Promise<readonly string[]>;
};
