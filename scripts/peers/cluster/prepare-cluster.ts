import { clusterPeers, type Peer, type PeerName } from "../peer.ts";
import { preparePeer } from "../prepare-peer.ts";
import { type Report, silentReport } from "../report.ts";
import type { KubernetesObject } from "./api.ts";
import { imageStore } from "./image-store.ts";
import type { BaseLayers } from "./image/executor-images.ts";
import type { Image } from "./image/oci-layout.ts";
import { type ProgramPeers, programsLayer } from "./image/program-layers.ts";
import { debianLayer } from "./image/rootfs.ts";
import { clusterObstacle } from "./obstacle.ts";
import { spireCrds } from "./spire-crds.ts";

const needed = [...clusterPeers, "spire-server", "spire-agent", "gitea-runner"] as const;

/** All that a cluster is made of. */
export type ClusterParts = {
  readonly peers: Readonly<Record<(typeof needed)[number], Peer>>;
  readonly layers: BaseLayers;
  /** What containerd has made of the layers. */
  readonly images: string;
  readonly crds: readonly KubernetesObject[];
  /** Instead of the executor's image that is put together of the sources; it has the same reference. */
  readonly executor?: Image;
  readonly environment: NodeJS.ProcessEnv;
  readonly report: Report;
};

export type PrepareClusterOptions = {
  readonly report?: Report;
  readonly environment?: NodeJS.ProcessEnv;
};

/**
 * Finds or makes the parts: about forty minutes on two cores the first time, nearly all of it Kubernetes. Rejects
 * where no cluster can run, before anything is built.
 */
export async function prepareCluster(
  { report = silentReport, environment = process.env }: PrepareClusterOptions,
  signal: AbortSignal,
): Promise<ClusterParts> {
  const obstacle = await clusterObstacle(environment);
  if (obstacle !== undefined) throw new Error(obstacle);
  const found: Partial<Record<PeerName, Peer>> = {};
  // One after the other: each build takes all processors by itself.
  for (const name of needed) found[name] = await preparePeer(name, { report, environment }, signal);
  const peers = found as ClusterParts["peers"];
  const options = { report, environment };
  const layers: BaseLayers = {
    debian: await debianLayer(options, signal),
    programs: await programsLayer(programPeers(peers), options, signal),
  };
  return {
    peers,
    layers,
    images: await imageStore(layers, options, signal),
    crds: await spireCrds(environment, signal),
    environment,
    report,
  };
}

/** Those that are in the executor's image. */
export function programPeers(peers: ClusterParts["peers"]): ProgramPeers {
  return { giteaRunner: peers["gitea-runner"], spireAgent: peers["spire-agent"] };
}
