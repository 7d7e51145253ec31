import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ClusterCertificates } from "./certificates.ts";
import { type ContainerdFiles, writeContainerdFiles } from "./containerd-settings.ts";

export type NodeOptions = {
  readonly folder: string;
  /** Of the slot: the cgroup below which all Pods' lie. */
  readonly cgroup: string;
  /** Whom Pods ask for names of Services, where a test has somebody who knows them. */
  readonly nameServer: string;
  readonly certificates: ClusterCertificates;
};

/** Files and folders of containerd and the kubelet. */
export type NodeFiles = {
  readonly containerd: ContainerdFiles;
  readonly kubeletConfiguration: string;
  readonly kubeletRoot: string;
};

/** Seen inside the node only, so every cluster may have the same. */
const podNetwork = "10.252.0.0/24";

/** Lays out what the node's two programs read. */
export async function writeNodeFiles(options: NodeOptions): Promise<NodeFiles> {
  const { folder } = options;
  const files: NodeFiles = {
    containerd: await writeContainerdFiles(folder),
    kubeletConfiguration: join(folder, "kubelet.json"),
    kubeletRoot: join(folder, "kubelet"),
  };
  for (const name of ["kubelet", "kubelet/plugins_registry", "pod-logs"])
    await mkdir(join(folder, name), { recursive: true, mode: 0o755 });
  await writeFile(join(folder, "cni/10-pods.conflist"), JSON.stringify(podNetworkConfiguration(folder)));
  await writeFile(files.kubeletConfiguration, JSON.stringify(kubeletConfiguration(options, files)));
  await writeFile(join(folder, "resolv.conf"), "nameserver 127.0.0.1\n");
  return files;
}

function podNetworkConfiguration(folder: string): object {
  const ipam = {
    type: "host-local",
    dataDir: join(folder, "cni-addresses"),
    ranges: [[{ subnet: podNetwork }]],
    routes: [{ dst: "0.0.0.0/0" }],
  };
  return {
    cniVersion: "0.4.0",
    name: "pods",
    plugins: [
      { type: "bridge", bridge: "cni0", isGateway: true, ipMasq: true, hairpinMode: true, ipam },
      { type: "portmap", capabilities: { portMappings: true } },
    ],
  };
}

/**
 * https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/. The limits for eviction are absolute or
 * tiny: a machine that is nearly full is no reason. Images are never removed, nobody could pull them again.
 */
function kubeletConfiguration(options: NodeOptions, files: NodeFiles): object {
  const { folder, cgroup, nameServer, certificates } = options;
  const { ca, kubeletServer } = certificates;
  return {
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    failCgroupV1: false,
    cgroupDriver: "cgroupfs",
    cgroupRoot: `/${cgroup}`,
    readOnlyPort: 0,
    healthzBindAddress: "127.0.0.1",
    tlsCertFile: kubeletServer.certificate,
    tlsPrivateKeyFile: kubeletServer.key,
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: true, cacheTTL: "5s" },
      x509: { clientCAFile: ca },
    },
    authorization: { mode: "Webhook" },
    containerRuntimeEndpoint: `unix://${files.containerd.socket}`,
    failSwapOn: false,
    clusterDNS: [nameServer],
    clusterDomain: "cluster.local",
    resolvConf: join(folder, "resolv.conf"),
    podLogsDir: join(folder, "pod-logs"),
    volumePluginDir: join(folder, "volume-plugins"),
    nodeStatusUpdateFrequency: "2s",
    nodeLeaseDurationSeconds: 8,
    evictionHard: {
      "memory.available": "100Mi",
      "nodefs.available": "1%",
      "imagefs.available": "1%",
      "nodefs.inodesFree": "1%",
    },
    evictionPressureTransitionPeriod: "10s",
    imageGCHighThresholdPercent: 100,
    imageGCLowThresholdPercent: 99,
    serializeImagePulls: false,
    registryPullQPS: 0,
    eventRecordQPS: 0,
  };
}
