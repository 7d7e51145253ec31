import { createSpireEntries } from "../../../controller/backends/local/spire-entries.ts";
import { parseSpiffeId, type SpiffeId } from "../../../controller/identity/spiffe-id.ts";
import type { ClusterParts } from "../../../scripts/peers/cluster/prepare-cluster.ts";
import type { Kubernetes } from "../../../scripts/peers/cluster/kubernetes.ts";
import { startKubernetes } from "../../../scripts/peers/cluster/start-kubernetes.ts";
import { createAdmin, type GiteaAdmin } from "../../../scripts/peers/gitea-api/admin.ts";
import type { GiteaSettings } from "../../../scripts/peers/gitea-settings.ts";
import { runCommand } from "../../../scripts/peers/run-command.ts";
import { type Gitea, startGitea } from "../../../scripts/peers/start-gitea.ts";
import { type Nats, startNats } from "../../../scripts/peers/start-nats.ts";
import { makeRunFolder } from "../../../scripts/quick-start/run-folder.ts";
import type { Peers } from "../../../scripts/quick-start/prepare-peers.ts";

export const trustDomain = "cluster.example";
const facadeId = parseSpiffeId(`spiffe://${trustDomain}/controller/facade`);
/** What executors call the facade; each Pod has the addresses in its /etc/hosts. */
export const facadeName = "facade.cluster.example";
/** Of each controller that may run beside another one: only the one that leads listens. */
const places = 3;

/** A real cluster with a real Gitea and NATS beside it: all that controllers need, and none of these yet. */
export type ClusterPlatform = AsyncDisposable & {
  readonly folder: string;
  readonly kubernetes: Kubernetes;
  readonly gitea: Gitea;
  readonly admin: GiteaAdmin;
  readonly nats: Nats;
  /** Addresses of ours that Pods reach: of each controller that may run beside another one. */
  readonly addresses: readonly string[];
  readonly facadeId: SpiffeId;
};

export type ClusterPlatformOptions = {
  readonly peers: Peers;
  readonly parts: ClusterParts;
  readonly giteaSettings?: GiteaSettings;
  /** Whether Pods reach NATS, as controllers that are Pods have to. */
  readonly natsForPods?: boolean;
};

/** Starts it; whatever fails on the way, nothing of it is left. */
export async function startClusterPlatform(
  { peers, parts, giteaSettings = {}, natsForPods = false }: ClusterPlatformOptions,
  signal: AbortSignal,
): Promise<ClusterPlatform> {
  await using stack = new AsyncDisposableStack();
  const folder = await makeRunFolder();
  stack.defer(async () => void (await folder.remove()));
  const place = { folder: await folder.below("k8s"), trustDomain, parts };
  const kubernetes = stack.use(await startKubernetes(place, signal));
  const addresses = await facadeAddresses(kubernetes, signal);
  const gitea = stack.use(
    await startGitea(
      {
        folder: await folder.below("gitea"),
        peer: peers.gitea,
        address: kubernetes.hostAddress,
        settings: giteaSettings,
      },
      signal,
    ),
  );
  const admin = await createAdmin(gitea, { user: "demo" }, signal);
  const address = natsForPods ? kubernetes.hostAddress : "127.0.0.1";
  const queue = { folder: await folder.below("nats"), peer: peers.nats, address };
  const nats = stack.use(await startNats(queue, signal));
  await registerFacade(kubernetes, signal);
  const all = stack.move();
  return {
    folder: folder.path,
    kubernetes,
    gitea,
    admin,
    nats,
    addresses,
    facadeId,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

/** Addresses of ours that Pods reach, on the link to the node; they go with it. None is of the network of the Pods. */
async function facadeAddresses(
  { hostAddress, name }: Kubernetes,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const more = Array.from({ length: places - 1 }, (_, index) =>
    hostAddress.replace(/^10\.251\.(\d+)\.\d+$/, `10.253.$1.${index + 1}`),
  );
  const environment = { ...process.env, PATH: `${process.env["PATH"] ?? ""}:/usr/sbin:/sbin` };
  for (const address of more) {
    const args = ["ip", "address", "add", `${address}/32`, "dev", name];
    await runCommand({ program: "/usr/bin/env", args, environment, deadline: 30_000 }, signal);
  }
  return [hostAddress, ...more];
}

/** What runs as our own user on this machine is the controller. */
async function registerFacade({ spire }: Kubernetes, signal: AbortSignal): Promise<void> {
  const { serverSocket, parentId, peers } = spire;
  const entries = createSpireEntries({ serverBinary: peers.spireServer.binary, serverSocket });
  const selectors = [`unix:uid:${process.geteuid?.() ?? 0}`];
  const entry = { id: "facade", spiffeId: facadeId, parentId, selectors, x509TtlSeconds: 600 };
  await entries.create(entry, signal);
}

/** Asks for the cluster's objects of a kind in a namespace, or in all. */
export async function listObjects(
  { api }: Kubernetes,
  collection: string,
): Promise<readonly Record<string, unknown>[]> {
  const answer = await api.read(collection, AbortSignal.timeout(30_000));
  return answer["items"] as readonly Record<string, unknown>[];
}
