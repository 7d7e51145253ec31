export type ServerSettings = {
  readonly address: string;
  readonly port: number;
  readonly key: string;
  readonly kubeconfig: string;
  /** Where it keeps its sandboxes, and where their pools are. */
  readonly namespace: string;
  /** How long a create waits for its VM: whole seconds. */
  readonly createSeconds: number;
  /** How long of that its pool may be full: whole seconds. */
  readonly poolSeconds: number;
  /** How long each of its watches of the cluster lasts: whole seconds. */
  readonly watchSeconds: number;
  /** The longest life that a sandbox may be given. */
  readonly lifeSeconds: number;
  readonly database: string;
};

/**
 * The server's configuration file. It passes over what it does not know, so that a slip of the pen does not show.
 * https://github.com/opensandbox-group/OpenSandbox/blob/main/server/configuration.md
 */
export function serverConfiguration(settings: ServerSettings): string {
  return toml({
    server: {
      host: settings.address,
      port: settings.port,
      api_key: settings.key,
      max_sandbox_timeout_seconds: settings.lifeSeconds,
    },
    log: { level: "INFO" },
    // Of pools it is not used, and it may not be empty.
    runtime: { type: "kubernetes", execd_image: "unused:0" },
    kubernetes: {
      kubeconfig_path: settings.kubeconfig,
      namespace: settings.namespace,
      workload_provider: "batchsandbox",
      sandbox_create_timeout_seconds: settings.createSeconds,
      pool_acquisition_timeout_seconds: settings.poolSeconds,
      sandbox_create_poll_interval_seconds: 0.2,
      informer_watch_timeout_seconds: settings.watchSeconds,
    },
    ingress: { mode: "direct" },
    store: { type: "sqlite", path: settings.database },
  });
}

/** Every string of JSON is one of TOML. */
function toml(sections: Readonly<Record<string, Readonly<Record<string, string | number>>>>): string {
  const lines = Object.entries(sections).flatMap(([name, values]) => [
    `[${name}]`,
    ...Object.entries(values).map(([key, value]) => `${key} = ${JSON.stringify(value)}`),
  ]);
  return `${lines.join("\n")}\n`;
}
