import { ConfigError } from "./config.ts";
import { ClusterConfigError } from "./kubernetes/cluster.ts";
import { type ClusterVariables, findCluster } from "./kubernetes/find-cluster.ts";
import { createHttpsApi } from "./kubernetes/https-api.ts";
import type { KubernetesApi } from "./kubernetes/kubernetes-api.ts";
import type { Clock } from "./platform/clock.ts";

/**
 * The API of the cluster that the variables name, or of the one in which we run. Rejects with ConfigError if there is
 * none or its credential cannot be read; whether the server answers is another matter.
 */
export async function openKubernetes(
  variables: ClusterVariables,
  clock: Clock,
  signal: AbortSignal,
): Promise<KubernetesApi> {
  try {
    return createHttpsApi({ cluster: await findCluster(variables, clock, signal), clock });
  } catch (error) {
    if (error instanceof ClusterConfigError) throw new ConfigError([error.message]);
    throw error;
  }
}
