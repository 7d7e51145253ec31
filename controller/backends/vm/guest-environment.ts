import type { Texts } from "../../assignment/executor-metadata.ts";

/** What a VM is told of its identity, by whichever strategy. */
export type GuestSettings = {
  /** As `SPIFFE_ENDPOINT_SOCKET` spells it, as seen in the VM. */
  readonly socket: string;
  /** The user that the job runs as in the VM. */
  readonly uid: number;
};

/** What an agent in a VM joins with. The token is a secret until it is used. */
export type GuestAgentJoin = {
  readonly token: string;
  /** `host:port`, as seen in the VM. */
  readonly server: string;
  readonly trustDomain: string;
  /** The CAs of the trust domain, as PEM. */
  readonly bundle: string;
};

export function guestEnvironment({ socket, uid }: GuestSettings): Texts {
  return { SPIFFE_ENDPOINT_SOCKET: socket, CI_EXECUTOR_UID: String(uid) };
}

/** Read by `gitea-opensandbox-runner` in the VM, which hands none of it on. */
export function guestAgentEnvironment({ token, server, trustDomain, bundle }: GuestAgentJoin): Texts {
  return {
    CI_SPIRE_JOIN_TOKEN: token,
    CI_SPIRE_SERVER: server,
    CI_SPIRE_TRUST_DOMAIN: trustDomain,
    CI_SPIRE_BUNDLE: bundle,
  };
}
