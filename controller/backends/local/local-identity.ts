import path from "node:path";
import type { BackendKind } from "../../assignment/backend-kind.ts";
import type { Clock } from "../../platform/clock.ts";
import type { Registration } from "./registration.ts";
import { createSpireEntries } from "./spire-entries.ts";
import { createSpireRegistration } from "./spire-registration.ts";
import { createWorkloadApiRegistration } from "./workload-api-registration.ts";

/** The real SPIRE, on this machine. Executors are told apart by their uids, so each needs one of its own. */
export type SpireIdentity = {
  readonly kind: "spire";
  /** The program `spire-server`, whose commands make the entries. */
  readonly serverBinary: string;
  /** The server's own socket: whoever may use it may give out any identity. */
  readonly serverSocket: string;
  /** What the agent of this machine is known as: its own SPIFFE ID, or an alias. */
  readonly parentId: string;
  /** Where all workloads of this machine get their identities. */
  readonly agentSocket: string;
  readonly svidTtlSeconds: number;
};

/** Where executors get their identities. `folder` is the development Workload API's. */
export type LocalIdentity = { readonly kind: "workload-api"; readonly folder: string } | SpireIdentity;

/** Throws if executors cannot get their identities that way. */
export function openRegistration(
  identity: LocalIdentity,
  of: {
    readonly kind: BackendKind;
    readonly owner: string;
    readonly ownUids: boolean;
    readonly clock: Clock;
  },
): Registration {
  switch (identity.kind) {
    case "workload-api":
      // Executors have other working folders than we.
      return createWorkloadApiRegistration(path.resolve(identity.folder));
    case "spire":
      if (!of.ownUids)
        throw new Error(
          "SPIRE tells executors apart by their uids, and only root can give each one of its own: " +
            "run the controller as root, or with LOCAL_IDENTITY=workload-api",
        );
      return createSpireRegistration({ ...identity, ...of, entries: createSpireEntries(identity) });
    default:
      return identity satisfies never;
  }
}
