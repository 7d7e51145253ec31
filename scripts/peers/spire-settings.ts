export type SpireIntervals = {
  /** How often the server looks for new entries, as in `500ms`; `default` is its own (5 s). 500 ms unless given. */
  readonly cacheReloadInterval?: string | undefined;
  /** How often the agent asks the server, likewise. */
  readonly syncInterval?: string | undefined;
};

type Common = SpireIntervals & {
  readonly trustDomain: string;
  readonly socket: string;
  readonly dataFolder: string;
};

/** The cluster whose agents the server lets in, by the tokens of their Pods' service account. */
export type SpireCluster = {
  /** What the agents call it; it stands in their IDs. */
  readonly name: string;
  /** With which the server asks the API server about a token. */
  readonly kubeconfig: string;
  /** As in `spire:spire-agent`. */
  readonly serviceAccount: string;
};

/** Whom the tokens of a cluster's agents are for. */
export const agentTokenAudience = "spire-server";

const fast = "500ms";

type Plugin = readonly [name: string, data: object];

/** Plugins by their kind, in SPIRE's JSON form. */
function plugins(chosen: Readonly<Record<string, readonly Plugin[]>>): object {
  return Object.fromEntries(
    Object.entries(chosen).map(([kind, some]) => [
      kind,
      some.map(([name, data]) => ({ [name]: { plugin_data: data } })),
    ]),
  );
}

function experimental(name: string, interval = fast): object {
  return interval === "default" ? {} : { experimental: { [name]: interval } };
}

/** The configuration of a spire-server that signs itself and lets agents in by join token, see its doc/spire_server.md. */
export function serverConfiguration(
  options: Common & {
    readonly address: string;
    readonly port: number;
    readonly cluster?: SpireCluster | undefined;
    /** Who may do everything over the network, by their SVIDs. */
    readonly adminIds?: readonly string[] | undefined;
  },
): object {
  const { trustDomain, socket, dataFolder, address, port, cluster, adminIds = [] } = options;
  return {
    server: {
      bind_address: address,
      bind_port: port,
      socket_path: socket,
      trust_domain: trustDomain,
      data_dir: dataFolder,
      log_level: "DEBUG",
      admin_ids: adminIds,
      ...experimental("cache_reload_interval", options.cacheReloadInterval),
    },
    plugins: plugins({
      DataStore: [
        ["sql", { database_type: "sqlite3", connection_string: `${dataFolder}/datastore.sqlite3` }],
      ],
      NodeAttestor: [["join_token", {}], ...(cluster === undefined ? [] : [psat(cluster)])],
      KeyManager: [["memory", {}]],
    }),
  };
}

/** https://github.com/spiffe/spire/blob/v1.13.3/doc/plugin_server_nodeattestor_k8s_psat.md */
function psat({ name, kubeconfig, serviceAccount }: SpireCluster): Plugin {
  const cluster = {
    service_account_allow_list: [serviceAccount],
    kube_config_file: kubeconfig,
    audience: [agentTokenAudience],
  };
  return ["k8s_psat", { clusters: [{ [name]: cluster }] }];
}

type Agent = Common & {
  readonly serverAddress: string;
  readonly serverPort: number;
  readonly bundleFile: string;
};

/**
 * The configuration of a spire-agent that knows workloads by their uids, see its doc/spire_agent.md. Its keys are on
 * disk: the join token counts once, so an agent that forgets its key cannot come back.
 */
export function agentConfiguration(options: Agent & { readonly joinToken: string }): object {
  const { dataFolder, joinToken } = options;
  return {
    agent: { ...agent(options), join_token: joinToken },
    plugins: plugins({
      NodeAttestor: [["join_token", {}]],
      KeyManager: [["disk", { directory: dataFolder }]],
      WorkloadAttestor: [["unix", {}]],
    }),
  };
}

/**
 * The configuration of a spire-agent on a cluster's node, which knows workloads by their Pods and uids, see
 * https://github.com/spiffe/spire/blob/v1.13.3/doc/plugin_agent_workloadattestor_k8s.md. With its Pod's token it can
 * join again at any time.
 */
export function nodeAgentConfiguration(
  options: Agent & {
    readonly cluster: string;
    readonly tokenFile: string;
    readonly nodeName: string;
    /** Of the kubelet's certificate, and a client certificate that it lets in. */
    readonly kubeletCa: string;
    readonly kubeletClient: { readonly certificate: string; readonly key: string };
  },
): object {
  const { cluster, tokenFile, nodeName, kubeletCa, kubeletClient } = options;
  const kubelet = {
    node_name: nodeName,
    kubelet_ca_path: kubeletCa,
    certificate_path: kubeletClient.certificate,
    private_key_path: kubeletClient.key,
  };
  return {
    agent: agent(options),
    plugins: plugins({
      NodeAttestor: [["k8s_psat", { cluster, token_path: tokenFile }]],
      KeyManager: [["memory", {}]],
      WorkloadAttestor: [
        ["k8s", kubelet],
        ["unix", {}],
      ],
    }),
  };
}

function agent(options: Agent): object {
  const { trustDomain, socket, dataFolder, serverAddress, serverPort, bundleFile } = options;
  return {
    server_address: serverAddress,
    server_port: serverPort,
    socket_path: socket,
    trust_domain: trustDomain,
    trust_bundle_path: bundleFile,
    data_dir: dataFolder,
    log_level: "DEBUG",
    ...experimental("sync_interval", options.syncInterval),
  };
}
