import type { OpenSandboxApi } from "../../opensandbox/opensandbox-api.ts";
import type { Random } from "../../platform/backoff.ts";
import type { Clock, SteadyClock } from "../../platform/clock.ts";
import type { Logger } from "../../platform/logger.ts";
import type { VmIdentity } from "./vm-identity.ts";

/** What the VM backend waits for and how long, in milliseconds. Tests may shorten them. */
export type VmTimes = {
  /** While there are executors all of them are listed this often … */
  readonly pollMs: number;
  /** … and this often while there are none. */
  readonly idleMs: number;
  /** A view that is older is not handed out: the server is asked instead. */
  readonly staleMs: number;
  /** An executor that every list shows as it was is asked for by its id this often: the lists may be frozen. */
  readonly checkMs: number;
  /** How far the server's own view may be behind. What is to be taken for lost is read as such for longer than this. */
  readonly lagMs: number;
  /**
   * How long a create may still come to something after its answer was lost: the server's own
   * `kubernetes.sandbox_create_timeout_seconds` (60 s), and the way there.
   */
  readonly createWindowMs: number;
  /** While such a create is looked for, this often. */
  readonly searchMs: number;
  /** A sandbox that is deleted is followed for this long … */
  readonly goneMs: number;
  /** … and looked at this often at first, later as often as all are listed. */
  readonly goneEveryMs: number;
  /** The server itself removes a sandbox this long after its deadline, should no controller do it. */
  readonly ttlMarginMs: number;
  /** A pool that said without a time that it has no place is left alone for this long. */
  readonly noPlaceMs: number;
};

export const defaultVmTimes: VmTimes = {
  pollMs: 3_000,
  idleMs: 15_000,
  staleMs: 30_000,
  checkMs: 30_000,
  lagMs: 10_000,
  createWindowMs: 90_000,
  searchMs: 3_000,
  goneMs: 180_000,
  goneEveryMs: 500,
  ttlMarginMs: 120_000,
  noPlaceMs: 5_000,
};

export type VmBackendOptions = {
  readonly api: OpenSandboxApi;
  readonly identity: VmIdentity;
  /** Marks everything as ours. */
  readonly owner: string;
  readonly trustDomain: string;
  /** The pool that VMs are taken from, by name. */
  readonly pool: string;
  readonly times?: Partial<VmTimes>;
  readonly clock: Clock;
  /** For how long something took; the machine's own unless given. */
  readonly steady?: SteadyClock;
  readonly random: Random;
  readonly log: Logger;
};
