import { untilAborted } from "../../platform/signal.ts";
import { checkIdentity } from "./check-identity.ts";
import { type GuestSettings, guestEnvironment } from "./guest-environment.ts";
import type { VmIdentity } from "./vm-identity.ts";

/**
 * The pool's template brings the agent and its socket: whoever made the template has arranged by what a VM is known, and
 * who gets which identity. We make nothing, so there is nothing to take back.
 */
export function createTemplateIdentity(
  options: GuestSettings & { readonly trustDomain: string },
): VmIdentity {
  return {
    prepare: async (metadata) => {
      checkIdentity(metadata, options.trustDomain);
      return guestEnvironment(options);
    },
    bind: async ({ metadata }) => {
      checkIdentity(metadata, options.trustDomain);
      return { bound: true };
    },
    revoke: async () => undefined,
    lack: () => undefined,
    run: (_isThere, _onChange, signal) => untilAborted(signal),
  };
}
