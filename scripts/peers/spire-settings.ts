export type SpireIntervals = {
  /** How often the server looks for new entries, as in `500ms`; `default` is its own (5 s). 500 ms unless given. */
  readonly cacheReloadInterval?: string;
  /** How often the agent asks the server, likewise. */
  readonly syncInterval?: string;
};

type Common = SpireIntervals & {
  readonly trustDomain: string;
  readonly socket: string;
  readonly dataFolder: string;
};

const fast = "500ms";

/** One plugin of each kind, in SPIRE's JSON form. */
function plugins(chosen: Readonly<Record<string, readonly [name: string, data: object]>>): object {
  return Object.fromEntries(
    Object.entries(chosen).map(([kind, [name, data]]) => [kind, [{ [name]: { plugin_data: data } }]]),
  );
}

function experimental(name: string, interval = fast): object {
  return interval === "default" ? {} : { experimental: { [name]: interval } };
}

/** The configuration of a spire-server that signs itself and lets agents in by join token, see its doc/spire_server.md. */
export function serverConfiguration(options: Common & { readonly port: number }): object {
  const { trustDomain, socket, dataFolder, port } = options;
  return {
    server: {
      bind_address: "127.0.0.1",
      bind_port: port,
      socket_path: socket,
      trust_domain: trustDomain,
      data_dir: dataFolder,
      log_level: "DEBUG",
      ...experimental("cache_reload_interval", options.cacheReloadInterval),
    },
    plugins: plugins({
      DataStore: ["sql", { database_type: "sqlite3", connection_string: `${dataFolder}/datastore.sqlite3` }],
      NodeAttestor: ["join_token", {}],
      KeyManager: ["memory", {}],
    }),
  };
}

/**
 * The configuration of a spire-agent that knows workloads by their uids, see its doc/spire_agent.md. Its keys are on
 * disk: the join token counts once, so an agent that forgets its key cannot come back.
 */
export function agentConfiguration(
  options: Common & {
    readonly serverPort: number;
    readonly bundleFile: string;
    readonly joinToken: string;
  },
): object {
  const { trustDomain, socket, dataFolder, serverPort, bundleFile, joinToken } = options;
  return {
    agent: {
      server_address: "127.0.0.1",
      server_port: serverPort,
      socket_path: socket,
      trust_domain: trustDomain,
      trust_bundle_path: bundleFile,
      data_dir: dataFolder,
      join_token: joinToken,
      log_level: "DEBUG",
      ...experimental("sync_interval", options.syncInterval),
    },
    plugins: plugins({
      NodeAttestor: ["join_token", {}],
      KeyManager: ["disk", { directory: dataFolder }],
      WorkloadAttestor: ["unix", {}],
    }),
  };
}
