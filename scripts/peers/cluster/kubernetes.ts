import type { SpireIntervals } from "../spire-settings.ts";
import type { Spire } from "../start-spire.ts";
import type { ClusterApi } from "./api.ts";
import type { Component } from "./component.ts";
import type { ClusterParts } from "./prepare-cluster.ts";
import type { ServiceAccount } from "./service-account-token.ts";

export type KubernetesOptions = SpireIntervals & {
  /** Configuration, logs, data and sockets. Not on an overlay; its path is short, and open to other users. */
  readonly folder: string;
  readonly trustDomain: string;
  /** What SPIRE calls the cluster; `homelab` unless given, as the controller's own default. */
  readonly clusterName?: string;
  /** Of the spire-controller-manager, which takes resources without a class as well; the controller's default. */
  readonly className?: string;
  /** Prepared here unless given. */
  readonly parts?: ClusterParts;
};

/** The cluster's programs, to be troubled. */
export type KubernetesComponents = {
  readonly etcd: Component;
  readonly apiServer: Component;
  readonly controllerManager: Component;
  readonly scheduler: Component;
  readonly containerd: Component;
  readonly kubelet: Component;
  readonly csi: Component;
  readonly spireAgent: Component;
  readonly spireControllerManager: Component;
};

/** A running cluster of one node, with SPIRE. */
export type Kubernetes = AsyncDisposable & {
  /** Of its cgroups and its link on this machine. */
  readonly name: string;
  /** The API server's address, as in `https://10.251.0.2:6443`. */
  readonly server: string;
  /** The file with its CA. */
  readonly ca: string;
  readonly adminKubeconfig: string;
  /** As the administrator. */
  readonly api: ClusterApi;
  /** Path of a new kubeconfig with a token of that service account, which has to exist; good for a day. */
  kubeconfigFor(account: ServiceAccount, signal: AbortSignal): Promise<string>;
  /** A new token of that service account, likewise. */
  tokenFor(account: ServiceAccount, signal: AbortSignal): Promise<string>;
  readonly nodeName: string;
  readonly nodeUid: string;
  /** Our address on the link to the node: what listens on it can be reached from Pods. */
  readonly hostAddress: string;
  /** The executor's image, of the sources as they were at the start. */
  readonly executorImage: string;
  /** The same by digest, as a stack names it. */
  readonly executorByDigest: string;
  /** Gives the node the controller's image, of the sources as they are now. Resolves with its reference by digest. */
  addControllerImage(signal: AbortSignal): Promise<string>;
  /**
   * SPIRE's server, and an agent that knows processes of this machine by their uids: for the controller and the
   * facade. Their entries are made with `createSpireEntries`, below `spire.parentId`.
   */
  readonly spire: Spire;
  /** The cluster's name with SPIRE. */
  readonly clusterName: string;
  /** The ID of the agent on the node: the parent of Pods' entries. */
  readonly agentId: string;
  readonly components: KubernetesComponents;
  /** Adds a node that is ready and takes no Pod, until it is disposed of. */
  addFakeNode(name: string, signal: AbortSignal): Promise<AsyncDisposable>;
  /** Ends everything; stopping twice is no error. */
  stop(): Promise<void>;
};
