import { randomBytes } from "node:crypto";
import { createGuestAgentIdentity } from "./backends/vm/guest-agent-identity.ts";
import { createTemplateIdentity } from "./backends/vm/template-identity.ts";
import type { VmIdentity } from "./backends/vm/vm-identity.ts";
import { ConfigError, type Config } from "./config.ts";
import type { KubernetesApi } from "./kubernetes/kubernetes-api.ts";
import type { Random } from "./platform/backoff.ts";
import { type Clock, type SteadyClock, systemSteadyClock } from "./platform/clock.ts";
import type { Logger } from "./platform/logger.ts";
import type { SvidSource } from "./spiffe/x509-source.ts";
import { createAgentsClient } from "./spire-server/agents-client.ts";
import { formatSpireServerPort } from "./spire-server/server-address.ts";

export type VmIdentityDependencies = {
  /** The cluster of the entries; needed for agents in VMs. */
  readonly kubernetes?: KubernetesApi;
  /** Our own SVID; asked for only when VMs are made. */
  readonly source: SvidSource;
  readonly clock: Clock;
  readonly steady?: SteadyClock;
  readonly random: Random;
  readonly log: Logger;
};

/**
 * How VMs come to their identities, as the configuration says. Its connections are closed when its `run` ends. Throws
 * ConfigError for what is not there.
 */
export function openVmIdentity(
  config: Pick<Config, "gitea" | "trustDomain" | "times" | "vmIdentity">,
  { kubernetes, source, clock, steady = systemSteadyClock, random, log }: VmIdentityDependencies,
): VmIdentity {
  const { trustDomain, vmIdentity } = config;
  if (vmIdentity === undefined) throw new ConfigError(["VM_IDENTITY: no VMs are made"]);
  if (vmIdentity.kind === "template") return createTemplateIdentity({ ...vmIdentity, trustDomain });
  if (kubernetes === undefined) throw new ConfigError(["VM_IDENTITY: there is no cluster for the entries"]);
  const { server, guestServer, ...settings } = vmIdentity;
  const agents = createAgentsClient({ address: server, trustDomain, source, clock });
  const identity = createGuestAgentIdentity({
    ...settings,
    owner: config.gitea.uuid,
    trustDomain,
    agents,
    server: formatSpireServerPort(guestServer),
    bundle: () => source.current().bundlePem.join(""),
    tokenTtlSeconds: Math.ceil(config.times.startMs / 1000),
    newToken: () => randomBytes(16).toString("hex"),
    api: kubernetes,
    clock,
    steady,
    random,
    log,
  });
  return {
    ...identity,
    run: async (...args) => {
      try {
        await identity.run(...args);
      } finally {
        agents[Symbol.dispose]();
      }
    },
  };
}
