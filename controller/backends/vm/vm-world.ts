import type { OpenSandboxApi } from "../../opensandbox/opensandbox-api.ts";
import type { Clock, SteadyClock } from "../../platform/clock.ts";
import type { KeyedQueue } from "../../platform/keyed-queue.ts";
import type { Logger } from "../../platform/logger.ts";
import type { AskedFor } from "./asked-for.ts";
import type { KnownSandboxes } from "./known-sandboxes.ts";
import type { PoolPlaces } from "./pool-places.ts";
import type { SandboxReader } from "./read-sandboxes.ts";
import type { VmIdentity } from "./vm-identity.ts";
import type { VmTimes } from "./vm-options.ts";

/** What the calls of the backend share. */
export type VmWorld = {
  readonly api: OpenSandboxApi;
  readonly known: KnownSandboxes;
  readonly reader: SandboxReader;
  readonly asked: AskedFor;
  readonly places: PoolPlaces;
  /** Changes of one sandbox, by its id: two at once may undo each other at the server. */
  readonly changes: KeyedQueue;
  readonly identity: VmIdentity;
  readonly owner: string;
  readonly pool: string;
  readonly times: VmTimes;
  readonly clock: Clock;
  readonly steady: SteadyClock;
  readonly log: Logger;
};
