import { ConfigError } from "./config.ts";
import type { LeaseConfig } from "./config/kubernetes.ts";
import type { LeasePort } from "./lifecycle/lease-keeper.ts";

/** The Lease by which the controllers of a namespace take turns. Rejects with what is wrong in the configuration. */
export async function openLease({ namespace }: LeaseConfig): Promise<LeasePort> {
  throw new ConfigError([`CONTROLLER_NAMESPACE: the Lease in ${namespace} cannot be reached yet`]);
}
