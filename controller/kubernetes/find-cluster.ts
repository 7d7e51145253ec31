import type { Clock } from "../platform/clock.ts";
import { type Cluster, ClusterConfigError, createCredentials } from "./cluster.ts";
import { inCluster } from "./in-cluster.ts";
import { fromKubeconfig } from "./kubeconfig.ts";

export type ClusterVariables = {
  readonly KUBECONFIG?: string | undefined;
  readonly KUBERNETES_SERVICE_HOST?: string | undefined;
  readonly KUBERNETES_SERVICE_PORT?: string | undefined;
};

/**
 * The cluster that `KUBECONFIG` names, or else the one in which we run, with a credential that can be read. Rejects
 * with ClusterConfigError, which only an operator can help; whether the server answers is another matter.
 */
export async function findCluster(
  variables: ClusterVariables,
  clock: Clock,
  signal: AbortSignal,
): Promise<Cluster> {
  const { KUBECONFIG: files, KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = variables;
  if ((files ?? "") === "" && (host ?? "") === "")
    throw new ClusterConfigError(
      "KUBECONFIG and KUBERNETES_SERVICE_HOST: one is needed; Kubernetes sets the second in each Pod",
    );
  const cluster =
    files === undefined || files === "" ? inCluster({ host: host ?? "", port }) : await fromKubeconfig(files);
  await createCredentials(cluster, clock).current(signal);
  return cluster;
}
