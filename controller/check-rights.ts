import { ConfigError, type Config } from "./config.ts";
import { missingPermissions } from "./kubernetes/check-permissions.ts";
import { ApiOutage, ApiRefusal, type KubernetesApi } from "./kubernetes/kubernetes-api.ts";
import { permissionsOf } from "./kubernetes/permissions.ts";
import type { Random } from "./platform/backoff.ts";
import type { Clock } from "./platform/clock.ts";
import type { Logger } from "./platform/logger.ts";
import { persist } from "./platform/persist.ts";

export type CheckRightsOptions = {
  readonly kubernetes: Pick<KubernetesApi, "call">;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
};

/**
 * Asks the API server, through outages of whatever length, whether we may do there what we are to do. Rejects with
 * ConfigError, which says all that is missing.
 */
export async function checkRights(
  { lease, kubernetes: pods, vmIdentity }: Pick<Config, "lease" | "kubernetes" | "vmIdentity">,
  { kubernetes, clock, random, log }: CheckRightsOptions,
  signal: AbortSignal,
): Promise<void> {
  const permissions = permissionsOf({
    controllerNamespace: lease?.namespace,
    podNamespace: pods?.pods.namespace,
    guestAgents: vmIdentity?.kind === "guest-agent",
  });
  const missing = await persist(
    (abort) => missingPermissions(kubernetes, permissions, abort),
    {
      doing: "asking the API server what is allowed",
      // One that refuses to say may say it later: what only an operator can help is in its answer.
      passing: (error) => error instanceof ApiOutage || error instanceof ApiRefusal,
      clock,
      random,
      log: log.child({ component: "main" }),
    },
    signal,
  );
  if (missing.length > 0) throw new ConfigError(missing);
}
