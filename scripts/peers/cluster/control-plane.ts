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
  const { ca, apiServer, admin, serviceAccounts } = certificates;
  return {
    etcd: [
      `--data-dir=${below("etcd")}`,
      "--name=cluster",
      `--listen-client-urls=${etcdClients}`,
      `--advertise-client-urls=${etcdClients}`,
      `--listen-peer-urls=${etcdPeers}`,
      `--initial-advertise-peer-urls=${etcdPeers}`,
      `--initial-cluster=cluster=${etcdPeers}`,
      // It does not outlive the machine anyway.
      "--unsafe-no-fsync",
      "--log-level=warn",
    ],
    apiServer: [
      `--etcd-servers=${etcdClients}`,
      "--bind-address=0.0.0.0",
      `--secure-port=${apiServerPort}`,
      `--advertise-address=${slot.nodeIp}`,
      `--cert-dir=${below("apiserver")}`,
      `--tls-cert-file=${apiServer.certificate}`,
      `--tls-private-key-file=${apiServer.key}`,
      `--client-ca-file=${ca}`,
      `--kubelet-certificate-authority=${ca}`,
      `--kubelet-client-certificate=${admin.certificate}`,
      `--kubelet-client-key=${admin.key}`,
      "--kubelet-preferred-address-types=InternalIP",
      "--service-account-issuer=https://kubernetes.default.svc",
      `--service-account-key-file=${serviceAccounts.publicKey}`,
      `--service-account-signing-key-file=${serviceAccounts.privateKey}`,
      "--service-cluster-ip-range=10.96.0.0/16",
      "--authorization-mode=Node,RBAC",
      "--enable-admission-plugins=NodeRestriction",
      "--allow-privileged=true",
      "--default-not-ready-toleration-seconds=5",
      "--default-unreachable-toleration-seconds=5",
      "--profiling=false",
      "--v=1",
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
