import { apiServerFlags, etcdFlags } from "./api-server-flags.ts";
import type { Site } from "./site.ts";

/** The flags of the programs that every cluster has once. */
export type ControlPlane = {
  readonly etcd: readonly string[];
  readonly apiServer: readonly string[];
  readonly controllerManager: readonly string[];
  readonly scheduler: readonly string[];
};

/** Ports are fixed: nobody else is in the cluster's network namespace. */
export const apiServerPort = 6443;
const etcdClients = "http://127.0.0.1:2379";
const etcdPeers = "http://127.0.0.1:2380";

/** A node counts as lost after 12 s without news and not after 50, and its Pods are evicted 5 s later, not 300. */
export function controlPlane({ below, slot, certificates, kubeconfigs }: Site): ControlPlane {
  const { ca, admin, serviceAccounts } = certificates;
  return {
    etcd: etcdFlags({ dataFolder: below("etcd"), clients: etcdClients, peers: etcdPeers }),
    apiServer: [
      ...apiServerFlags({
        etcd: etcdClients,
        bind: "0.0.0.0",
        advertise: slot.nodeIp,
        port: apiServerPort,
        certificateFolder: below("apiserver"),
        certificates,
      }),
      `--kubelet-certificate-authority=${ca}`,
      `--kubelet-client-certificate=${admin.certificate}`,
      `--kubelet-client-key=${admin.key}`,
      "--kubelet-preferred-address-types=InternalIP",
      "--enable-admission-plugins=NodeRestriction",
      "--allow-privileged=true",
      "--default-not-ready-toleration-seconds=5",
      "--default-unreachable-toleration-seconds=5",
    ],
    controllerManager: [
      ...client(kubeconfigs.controllerManager, below("controller-manager")),
      `--service-account-private-key-file=${serviceAccounts.privateKey}`,
      `--root-ca-file=${ca}`,
      "--use-service-account-credentials=true",
      "--node-monitor-period=2s",
      "--node-monitor-grace-period=12s",
    ],
    scheduler: client(kubeconfigs.scheduler, below("scheduler")),
  };
}

function client(kubeconfig: string, certificateFolder: string): readonly string[] {
  return [
    `--kubeconfig=${kubeconfig}`,
    `--authentication-kubeconfig=${kubeconfig}`,
    `--authorization-kubeconfig=${kubeconfig}`,
    "--leader-elect=false",
    "--bind-address=127.0.0.1",
    `--cert-dir=${certificateFolder}`,
    "--v=1",
  ];
}
