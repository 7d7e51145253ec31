import { writeFile } from "node:fs/promises";
import type { InsideProgram } from "./launch.ts";

export type EntryControllerOptions = {
  readonly clusterName: string;
  readonly className: string;
  readonly trustDomain: string;
  readonly serverSocket: string;
  /** Where it finds the resources. */
  readonly kubeconfig: string;
  /** Its own configuration, which is written here. */
  readonly file: string;
  /** Where it says that it is ready, as in `127.0.0.1:18084`. */
  readonly health: string;
};

/**
 * Lays out spire-controller-manager, which turns resources of the cluster into SPIRE's entries, see
 * https://github.com/spiffe/spire-controller-manager/blob/v0.6.4/docs/spire-controller-manager-config.md. It leaves
 * alone the entries that others have made: its own are known by their prefix.
 */
export async function entryController(options: EntryControllerOptions): Promise<InsideProgram> {
  const { health, file } = options;
  const configuration = {
    apiVersion: "spire.spiffe.io/v1alpha1",
    kind: "ControllerManagerConfig",
    metrics: { bindAddress: "0" },
    health: { healthProbeBindAddress: health },
    leaderElection: { leaderElect: false },
    clusterName: options.clusterName,
    clusterDomain: "cluster.local",
    trustDomain: options.trustDomain,
    className: options.className,
    watchClassless: true,
    entryIDPrefix: options.clusterName,
    ignoreNamespaces: ["kube-system"],
    // Nanoseconds; a change that comes while it is at work is seen that much later.
    gcInterval: 1_000_000_000,
    spireServerSocketPath: options.serverSocket,
  };
  await writeFile(file, JSON.stringify(configuration));
  return {
    name: "spire-controller-manager",
    args: ["-config", file],
    environment: { ENABLE_WEBHOOKS: "false", KUBECONFIG: options.kubeconfig },
    isReady: async (signal) => (await fetch(`http://${health}/readyz`, { signal })).ok,
  };
}
