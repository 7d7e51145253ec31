import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { createStreams } from "../../../controller/queue/prepare-streams.ts";
import { wantedStreams } from "../../../controller/queue/streams.ts";
import type { KubernetesObject } from "../../../scripts/peers/cluster/api.ts";
import { freePort } from "../../../scripts/peers/free-port.ts";
import { type RegisteredRunner, registerRunner } from "../../../scripts/peers/gitea-api/register-runner.ts";
import type { Gitea } from "../../../scripts/peers/start-gitea.ts";
import { newCapabilityKey, writeSecret } from "../../../scripts/quick-start/secrets.ts";
import { withNats } from "../with-nats.ts";
import { type ClusterPlatform, facadeName, trustDomain } from "./cluster-platform.ts";
import { grantRights, type RightsOptions } from "./controller-rights.ts";

export type TenantOptions = Pick<RightsOptions, "without"> & {
  /** Of all that is its own; a name of Kubernetes. */
  readonly name: string;
  /** Where its executors are; `ci-<name>` unless given, where its Lease is. */
  readonly namespace?: string;
  /** Repository (`demo/tool`) whose jobs it takes; everybody's unless given. */
  readonly scope?: string;
  readonly capacity?: number;
  /** Whose jobs it takes; the platform's unless given. */
  readonly gitea?: Gitea;
  /** What the Pods' patch has besides, of the Pod's `spec` and of the executor's container. */
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly container?: Readonly<Record<string, unknown>>;
};

/** One who runs a controller, or several of which one leads: registered in Gitea, with streams and rights of its own. */
export type Tenant = {
  readonly namespace: string;
  readonly runner: RegisteredRunner;
  /** Variables of the controller of that place, from 0; no two that run at once have the same. */
  environment(place: number): Promise<Readonly<Record<string, string>>>;
};

/** Makes all that the tenant's controllers need, but for these. */
export async function createTenant(
  platform: ClusterPlatform,
  options: TenantOptions,
  signal: AbortSignal,
): Promise<Tenant> {
  const { name, namespace = `ci-${name}`, scope, capacity = 4, without } = options;
  const { kubernetes, nats, addresses, facadeId } = platform;
  const { gitea = platform.gitea } = options;
  const folder = path.join(platform.folder, `tenant-${name}`);
  await mkdir(folder);
  const description = { name, labels: [], ...(scope === undefined ? {} : { scope }) };
  const runner = await registerRunner(gitea, description, signal);
  const stream = `CI_${name.replaceAll("-", "_").toUpperCase()}`;
  const subjectBase = `ci.${name}`;
  const wanted = wantedStreams({ stream, subjectBase, capacity: { pod: capacity, vm: 1 } });
  await withNats(nats, (link) => createStreams(link, wanted, signal));

  const account = { namespace, name: `controller-${name}` };
  await prepareNamespace(platform, namespace, ["default", executorAccount, account.name], signal);
  const own = `ci-${name}`;
  await prepareNamespace(platform, own, [], signal);
  const rights = { podNamespace: namespace, controllerNamespace: own };
  await grantRights(kubernetes.api, account, without === undefined ? rights : { ...rights, without }, signal);

  const patch = path.join(folder, "pod-patch.yaml");
  await writeFile(patch, patchOf(addresses, options));
  const port = await freePort();
  const common = {
    GITEA_URL: gitea.url,
    GITEA_RUNNER_UUID: runner.uuid,
    GITEA_RUNNER_TOKEN_FILE: await writeSecret(folder, "runner-token", runner.token),
    NATS_URL: nats.url,
    NATS_USER: nats.user,
    NATS_PASSWORD_FILE: nats.passwordFile,
    NATS_STREAM: stream,
    NATS_SUBJECT_BASE: subjectBase,
    TRUST_DOMAIN: trustDomain,
    RUNNER_FACADE_URL: `https://${facadeName}:${port}`,
    RUNNER_FACADE_SPIFFE_ID: facadeId,
    CAPABILITY_KEY_FILE: await writeSecret(folder, "capability-keys", newCapabilityKey()),
    SPIFFE_ENDPOINT_SOCKET: `unix://${kubernetes.spire.agentSocket}`,
    COMPONENTS: "scheduler,pod-worker",
    POD_CAPACITY: String(capacity),
    POD_NAMESPACE: namespace,
    POD_EXECUTOR_IMAGE: kubernetes.executorImage,
    POD_DNS_POLICY: "Default",
    POD_PATCH_FILE: patch,
    SPIRE_AGENT_ID: `spiffe://${trustDomain}/spire/agent/k8s_psat/{cluster}/{nodeUid}`,
    SPIRE_CLUSTER: kubernetes.clusterName,
    CONTROLLER_NAMESPACE: own,
    NODE_ENV: "test",
    NODE_COMPILE_CACHE: path.join(platform.folder, "compile-cache"),
  };
  return {
    namespace,
    runner,
    environment: async (place) => ({
      ...common,
      HOSTNAME: `${name}-${place}`,
      RUNNER_FACADE_LISTEN: `${addresses[place] ?? ""}:${port}`,
      HEALTH_LISTEN: `127.0.0.1:${await freePort()}`,
      KUBECONFIG: await kubernetes.kubeconfigFor(account, signal),
    }),
  };
}

const executorAccount = "gitea-task-executor";

async function prepareNamespace(
  { kubernetes: { api } }: ClusterPlatform,
  namespace: string,
  accounts: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  const object = (kind: string, name: string): KubernetesObject => ({
    apiVersion: "v1",
    kind,
    metadata: { name },
  });
  await api.ensure("/api/v1/namespaces", object("Namespace", namespace), signal);
  for (const name of accounts)
    await api.ensure(
      `/api/v1/namespaces/${namespace}/serviceaccounts`,
      object("ServiceAccount", name),
      signal,
    );
}

/** The cluster has no DNS, and the image is on the node already. */
function patchOf(
  addresses: readonly string[],
  { spec = {}, container = {} }: Pick<TenantOptions, "spec" | "container">,
): string {
  const hostAliases = addresses.map((ip) => ({ ip, hostnames: [facadeName] }));
  const executor = { name: "executor", imagePullPolicy: "IfNotPresent", ...container };
  // JSON is YAML.
  return JSON.stringify({ spec: { hostAliases, containers: [executor], ...spec } });
}
