import { clusterObstacle } from "./cluster/obstacle.ts";
import { prepareCluster } from "./cluster/prepare-cluster.ts";
import { spireCrds } from "./cluster/spire-crds.ts";
import { type DockerPeer, dockerObstacle, prepareDocker } from "./docker/prepare-docker.ts";
import { imagesObstacle } from "./images/obstacle.ts";
import { prepareImages } from "./images/prepare-images.ts";
import { prepareOpenSandboxLab } from "./opensandbox/prepare-lab.ts";
import { openSandboxObstacle, type OpenSandboxPeer } from "./opensandbox/prepare-server.ts";
import { type GiteaPeer, imageProviders, infraPeers, type Peer, type PeerName } from "./peer.ts";
import { type PrepareOptions, preparePeer } from "./prepare-peer.ts";

/** What one suite needs, under one name. */
export type PeerGroup = {
  /** Why this machine cannot run it, with what to do about it; undefined where it can. */
  obstacle(signal: AbortSignal): Promise<string | undefined>;
  /** Prepares one after the other: each build takes all processors by itself. Says what there is now. */
  prepare(options: PrepareOptions, signal: AbortSignal): Promise<readonly string[]>;
};

const planePeers = [
  "etcd",
  "kube-apiserver",
  "kube-controller-manager",
] as const satisfies readonly PeerName[];

export const peerGroups: Readonly<Record<string, PeerGroup>> = {
  /** A cluster of one node, with all of its peers. */
  kubernetes: {
    obstacle: () => clusterObstacle(process.env),
    prepare: async (options, signal) => {
      const { peers, images } = await prepareCluster(options, signal);
      return [...Object.values(peers).map(describePeer), `images of executors ${images}`];
    },
  },
  /** An OpenSandbox server, an API server to work on, and what turns resources of entries into SPIRE's, for jobs in VMs. */
  opensandbox: {
    obstacle: (signal) => openSandboxObstacle(process.env, signal),
    prepare: async (options, signal) => {
      const { server, etcd, apiServer } = await prepareOpenSandboxLab(options, signal);
      const entries = await preparePeer("spire-controller-manager", options, signal);
      await spireCrds(process.env, signal);
      return [server, etcd, apiServer, entries].map(describePeer);
    },
  },
  /** Pulumi's engine with its provider of Kubernetes, and the part of a cluster that they work on. */
  pulumi: {
    obstacle: async () => undefined,
    prepare: async (options, signal) => {
      const lines: string[] = [];
      for (const name of [...infraPeers, ...planePeers])
        lines.push(describePeer(await preparePeer(name, options, signal)));
      return lines;
    },
  },
  /**
   * What container images are built with, and from, where no registry can be asked, an engine to run them, and what a stack
   * that builds its images needs besides: all of the group `pulumi`, and a provider.
   */
  images: {
    obstacle: async () => (await imagesObstacle(process.env)) ?? (await dockerObstacle(process.env)),
    prepare: async (options, signal) => {
      const { peers, syft, registry } = await prepareImages(options, signal);
      const docker = await prepareDocker(options, signal);
      const lines = [...Object.values(peers), docker].map(describePeer);
      for (const name of [...infraPeers, ...planePeers, ...imageProviders])
        lines.push(describePeer(await preparePeer(name, options, signal)));
      return [...lines, `syft ${syft}`, `docker-registry ${registry}`];
    },
  },
};

/** One line for a person. */
export function describePeer(peer: Peer | GiteaPeer | OpenSandboxPeer | DockerPeer): string {
  const head = `${peer.name} ${peer.version} (${peer.source})`;
  if ("folders" in peer) return `${head} ${peer.folders.join(" ")}`;
  const line = `${head} ${"binary" in peer ? peer.binary : [peer.program, ...peer.args].join(" ")}`;
  if (!("webPage" in peer)) return line;
  return peer.webPage.built ? line : `${line}, no web page: ${peer.webPage.reason}`;
}
