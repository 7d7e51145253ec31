import { mkdir } from "node:fs/promises";
import path from "node:path";
import { createStreams } from "../../../controller/queue/prepare-streams.ts";
import { wantedStreams } from "../../../controller/queue/streams.ts";
import { serviceAccountToken } from "../../../scripts/peers/cluster/service-account-token.ts";
import { writeKubeconfig } from "../../../scripts/peers/cluster/kubeconfig.ts";
import { freePort } from "../../../scripts/peers/free-port.ts";
import { registerRunner } from "../../../scripts/peers/gitea-api/register-runner.ts";
import { newCapabilityKey, writeSecret } from "../../../scripts/quick-start/secrets.ts";
import { grantRights } from "../kubernetes/controller-rights.ts";
import { withNats } from "../with-nats.ts";
import { className, facadeId, trustDomain, type VmPlatform } from "./vm-platform.ts";

export type VmTenantOptions = {
  /** Of all that is its own; a name of Kubernetes. */
  readonly name: string;
  readonly pool: string;
  /** Repository (`demo/tool`) whose jobs it takes; everybody's unless given. */
  readonly scope?: string;
  readonly capacity?: number;
  readonly label?: "vm" | "vm-dev";
};

/** The variables of a controller that is registered in Gitea and has streams and rights of its own, for VMs only. */
export async function createVmTenant(
  { lab, gitea, nats, spire }: VmPlatform,
  { name, pool, scope, capacity = 2, label = "vm" }: VmTenantOptions,
  signal: AbortSignal,
): Promise<Readonly<Record<string, string>>> {
  const { api, server, ca } = lab.apiServer;
  const folder = path.join(lab.folder.path, `tenant-${name}`);
  await mkdir(folder);
  const runner = await registerRunner(
    gitea,
    { name, labels: [], ...(scope === undefined ? {} : { scope }) },
    signal,
  );
  const stream = `CI_${name.replaceAll("-", "_").toUpperCase()}`;
  const subjectBase = `ci.${name}`;
  const wanted = wantedStreams({ stream, subjectBase, capacity: { pod: 1, vm: capacity } });
  await withNats(nats, (link) => createStreams(link, wanted, signal));

  const namespace = `ci-${name}`;
  const account = { namespace, name: "controller" };
  const object = (kind: string, named: string) => ({ apiVersion: "v1", kind, metadata: { name: named } });
  await api.ensure("/api/v1/namespaces", object("Namespace", namespace), signal);
  const accounts = `/api/v1/namespaces/${namespace}/serviceaccounts`;
  await api.ensure(accounts, object("ServiceAccount", account.name), signal);
  const rights = { podNamespace: undefined, controllerNamespace: namespace, guestAgents: true };
  await grantRights(api, account, rights, signal);
  const token = await serviceAccountToken(api, account, {}, signal);

  const port = await freePort();
  const spireServer = `${spire.serverAddress}:${spire.serverPort}`;
  return {
    GITEA_URL: gitea.url,
    GITEA_RUNNER_UUID: runner.uuid,
    GITEA_RUNNER_TOKEN_FILE: await writeSecret(folder, "runner-token", runner.token),
    NATS_URL: nats.url,
    NATS_USER: nats.user,
    NATS_PASSWORD_FILE: nats.passwordFile,
    NATS_STREAM: stream,
    NATS_SUBJECT_BASE: subjectBase,
    TRUST_DOMAIN: trustDomain,
    RUNNER_FACADE_LISTEN: `127.0.0.1:${port}`,
    RUNNER_FACADE_URL: `https://127.0.0.1:${port}`,
    RUNNER_FACADE_SPIFFE_ID: facadeId,
    CAPABILITY_KEY_FILE: await writeSecret(folder, "capability-keys", newCapabilityKey()),
    SPIFFE_ENDPOINT_SOCKET: `unix://${spire.agentSocket}`,
    COMPONENTS: "scheduler,vm-worker",
    VM_CAPACITY: String(capacity),
    VM_RUNNER_LABEL: label,
    VM_IDENTITY: "guest-agent",
    SPIRE_SERVER_API: spireServer,
    SPIRE_CLASS: className,
    OPENSANDBOX_API: lab.server.url.href,
    OPENSANDBOX_API_KEY_FILE: lab.server.keyFile,
    OPENSANDBOX_POOL: pool,
    CONTROLLER_NAMESPACE: namespace,
    KUBECONFIG: await writeKubeconfig(path.join(folder, "kubeconfig"), { server, ca, namespace }, { token }),
    HOSTNAME: name,
    HEALTH_LISTEN: `127.0.0.1:${await freePort()}`,
    NODE_ENV: "test",
    NODE_COMPILE_CACHE: path.join(lab.folder.path, "compile-cache"),
  };
}
