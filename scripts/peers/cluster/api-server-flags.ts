import type { ClusterCertificates } from "./certificates.ts";

/** Both addresses as in `http://127.0.0.1:2379`. */
export type EtcdPlace = {
  readonly dataFolder: string;
  readonly clients: string;
  readonly peers: string;
};

/** One that serves nobody but an API server beside it. */
export function etcdFlags({ dataFolder, clients, peers }: EtcdPlace): readonly string[] {
  return [
    `--data-dir=${dataFolder}`,
    "--name=cluster",
    `--listen-client-urls=${clients}`,
    `--advertise-client-urls=${clients}`,
    `--listen-peer-urls=${peers}`,
    `--initial-advertise-peer-urls=${peers}`,
    `--initial-cluster=cluster=${peers}`,
    // It does not outlive the machine anyway.
    "--unsafe-no-fsync",
    "--log-level=warn",
  ];
}

export type ApiServerPlace = {
  /** The address of its etcd. */
  readonly etcd: string;
  /** The addresses that it listens on, and the one of them that it tells others. */
  readonly bind: string;
  readonly advertise: string;
  readonly port: number;
  readonly certificateFolder: string;
  readonly certificates: Pick<ClusterCertificates, "ca" | "apiServer" | "serviceAccounts">;
};

/** Knows its clients by their certificates and service accounts, and what each may do by RBAC. */
export function apiServerFlags(place: ApiServerPlace): readonly string[] {
  const { ca, apiServer, serviceAccounts } = place.certificates;
  return [
    `--etcd-servers=${place.etcd}`,
    `--bind-address=${place.bind}`,
    `--secure-port=${place.port}`,
    `--advertise-address=${place.advertise}`,
    `--cert-dir=${place.certificateFolder}`,
    `--tls-cert-file=${apiServer.certificate}`,
    `--tls-private-key-file=${apiServer.key}`,
    `--client-ca-file=${ca}`,
    "--service-account-issuer=https://kubernetes.default.svc",
    `--service-account-key-file=${serviceAccounts.publicKey}`,
    `--service-account-signing-key-file=${serviceAccounts.privateKey}`,
    "--service-cluster-ip-range=10.96.0.0/16",
    "--authorization-mode=Node,RBAC",
    "--profiling=false",
    "--v=1",
  ];
}

/** These controllers of the controller manager, as the administrator; it listens nowhere. */
export function controllerFlags(
  kubeconfig: string,
  { ca, serviceAccounts }: Pick<ClusterCertificates, "ca" | "serviceAccounts">,
  names: readonly string[],
): readonly string[] {
  return [
    `--kubeconfig=${kubeconfig}`,
    `--controllers=${names.join(",")}`,
    `--service-account-private-key-file=${serviceAccounts.privateKey}`,
    `--root-ca-file=${ca}`,
    "--leader-elect=false",
    "--secure-port=0",
    "--v=1",
  ];
}
