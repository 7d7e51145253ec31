import type { Names } from "./names.ts";
import type { Settings } from "./settings.ts";

export type Environment = Readonly<Record<string, string>>;

/** Where the Deployment mounts files. */
export const folders = { secrets: "/etc/runner/secrets", agent: "/run/spire/agent-sockets" } as const;

/** The files below the folder of secrets, by what is in them. */
export const secretFiles = {
  giteaRunnerToken: "gitea-runner-token",
  natsPassword: "nats-password",
  capabilityKeys: "capability-keys",
  openSandboxApiKey: "opensandbox-api-key",
  natsCa: "nats-ca.pem",
  openSandboxCa: "opensandbox-ca.pem",
} as const;

const file = (name: keyof typeof secretFiles) => `${folders.secrets}/${secretFiles[name]}`;

/**
 * The controller's configuration, secrets and images apart: exactly what was provisioned. Numbers and lists are as the
 * controller reads them.
 */
export function controllerEnvironment(settings: Settings, names: Names): Environment {
  const { gitea, nats, spire, components, controller } = settings;
  return {
    NODE_ENV: "production",
    LOG_LEVEL: controller.logLevel,
    COMPONENTS: components.join(","),
    GITEA_URL: gitea.url,
    GITEA_RUNNER_UUID: gitea.runnerUuid,
    GITEA_RUNNER_TOKEN_FILE: file("giteaRunnerToken"),
    GITEA_ENDLESS_SECONDS: String(gitea.endlessSeconds),
    NATS_URL: nats.url,
    NATS_USER: nats.user,
    NATS_PASSWORD_FILE: file("natsPassword"),
    ...(nats.ca === undefined ? {} : { NATS_CA_FILE: file("natsCa") }),
    NATS_STREAM: names.stream,
    NATS_SUBJECT_BASE: names.subjectBase,
    TRUST_DOMAIN: spire.trustDomain,
    SPIFFE_ENDPOINT_SOCKET: `unix://${folders.agent}/spire-agent.sock`,
    RUNNER_FACADE_LISTEN: `:${names.facadePort}`,
    RUNNER_FACADE_URL: `https://${names.facadeHost}:${names.facadePort}`,
    RUNNER_FACADE_SPIFFE_ID: names.controllerSpiffeId,
    CAPABILITY_KEY_FILE: file("capabilityKeys"),
    CONTROLLER_NAMESPACE: names.namespace,
    HEALTH_LISTEN: `:${names.healthPort}`,
    ...(components.includes("pod-worker") ? podEnvironment(settings, names) : {}),
    ...(components.includes("vm-worker") ? vmEnvironment(settings, names) : {}),
  };
}

function podEnvironment({ pod, spire }: Settings, names: Names): Environment {
  return {
    POD_NAMESPACE: names.executorNamespace,
    POD_SERVICE_ACCOUNT: names.executorServiceAccount,
    POD_CAPACITY: String(pod.capacity),
    ...(pod.backlog === undefined ? {} : { POD_BACKLOG: String(pod.backlog) }),
    POD_TIMEOUT_SECONDS: String(pod.timeoutSeconds),
    POD_ALLOW_FORKS: String(pod.allowForks),
    POD_NODE_SELECTOR: Object.entries(pod.nodeSelector)
      .map(([key, value]) => `${key}=${value}`)
      .join(","),
    POD_TOLERATIONS: pod.tolerations.length === 0 ? "" : JSON.stringify(pod.tolerations),
    POD_RESOURCES: Object.keys(pod.resources).length === 0 ? "" : JSON.stringify(pod.resources),
    POD_RUNTIME_CLASS: pod.runtimeClass ?? "",
    POD_IMAGE_PULL_SECRETS: pod.pullSecrets.join(","),
    SPIRE_AGENT_ID: spire.agentId ?? "",
    SPIRE_CLUSTER: spire.cluster,
    SPIRE_CLASS: spire.className,
  };
}

function vmEnvironment({ vm, spire }: Settings, names: Names): Environment {
  if (vm === undefined || names.pool === undefined) return {};
  const guest = vm.identity === "guest-agent";
  return {
    VM_RUNNER_LABEL: vm.label,
    VM_CAPACITY: String(vm.capacity),
    ...(vm.backlog === undefined ? {} : { VM_BACKLOG: String(vm.backlog) }),
    VM_TIMEOUT_SECONDS: String(vm.timeoutSeconds),
    VM_IDENTITY: vm.identity,
    OPENSANDBOX_API: vm.api,
    OPENSANDBOX_API_KEY_FILE: file("openSandboxApiKey"),
    ...(vm.ca === undefined ? {} : { OPENSANDBOX_CA_FILE: file("openSandboxCa") }),
    OPENSANDBOX_POOL: names.pool.name,
    ...(guest ? { SPIRE_SERVER_API: spire.serverApi ?? "", SPIRE_CLASS: spire.className } : {}),
  };
}
