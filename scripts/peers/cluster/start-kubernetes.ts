import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { systemClock } from "../../../controller/platform/clock.ts";
import type { SpireCluster, SpireIntervals } from "../spire-settings.ts";
import { type Spire, startSpire } from "../start-spire.ts";
import { type ClusterApi, openClusterApi } from "./api.ts";
import { createCertificates } from "./certificates.ts";
import { cgroupMounts } from "./cgroup-mounts.ts";
import { type Component, type ComponentRecipe, startComponent } from "./component.ts";
import { hasCondition } from "./conditions.ts";
import { importImages, startContainerd } from "./containerd.ts";
import { apiServerPort, controlPlane } from "./control-plane.ts";
import { entryController } from "./entry-controller.ts";
import { addFakeNode } from "./fake-node.ts";
import { copyImageStore } from "./image-store.ts";
import { executorImageOf } from "./image/executor-images.ts";
import { sourcesLayer } from "./image/program-layers.ts";
import { executorImage } from "./image/references.ts";
import { writeKubeconfig } from "./kubeconfig.ts";
import { createLaunch } from "./launch.ts";
import { createNamespaces } from "./namespaces.ts";
import { joinNetwork } from "./network.ts";
import { writeNodeFiles } from "./node-settings.ts";
import { installObjects } from "./objects.ts";
import { debianProgram } from "./obstacle.ts";
import { type ClusterParts, prepareCluster, programPeers } from "./prepare-cluster.ts";
import { takeSlot } from "./slot.ts";
import { agentServiceAccount, startSpireNode } from "./spire-node.ts";
import { together } from "./together.ts";

export type KubernetesOptions = SpireIntervals & {
  /** Configuration, logs, data and sockets. Not on an overlay; its path is short, and open to other users. */
  readonly folder: string;
  readonly trustDomain: string;
  /** What SPIRE calls the cluster; `homelab` unless given, as the controller's own default. */
  readonly clusterName?: string;
  /** Of the spire-controller-manager, which takes resources without a class as well; the controller's default. */
  readonly className?: string;
  /** Prepared here unless given. */
  readonly parts?: ClusterParts;
};

export type ServiceAccount = { readonly namespace: string; readonly name: string };

/** The cluster's programs, to be troubled. */
export type KubernetesComponents = {
  readonly etcd: Component;
  readonly apiServer: Component;
  readonly controllerManager: Component;
  readonly scheduler: Component;
  readonly containerd: Component;
  readonly kubelet: Component;
  readonly csi: Component;
  readonly spireAgent: Component;
  readonly spireControllerManager: Component;
};

/** A running cluster of one node, with SPIRE. */
export type Kubernetes = AsyncDisposable & {
  /** Of its cgroups and its link on this machine. */
  readonly name: string;
  /** The API server's address, as in `https://10.251.0.2:6443`. */
  readonly server: string;
  /** The file with its CA. */
  readonly ca: string;
  readonly adminKubeconfig: string;
  /** As the administrator. */
  readonly api: ClusterApi;
  /** Path of a new kubeconfig with a token of that service account, which has to exist; good for a day. */
  kubeconfigFor(account: ServiceAccount, signal: AbortSignal): Promise<string>;
  /** A new token of that service account, likewise. */
  tokenFor(account: ServiceAccount, signal: AbortSignal): Promise<string>;
  readonly nodeName: string;
  readonly nodeUid: string;
  /** Our address on the link to the node: what listens on it can be reached from Pods. */
  readonly hostAddress: string;
  /** The executor's image, of the sources as they were at the start. */
  readonly executorImage: string;
  /**
   * SPIRE's server, and an agent that knows processes of this machine by their uids: for the controller and the
   * facade. Their entries are made with `createSpireEntries`, below `spire.parentId`.
   */
  readonly spire: Spire;
  /** The cluster's name with SPIRE. */
  readonly clusterName: string;
  /** The ID of the agent on the node: the parent of Pods' entries. */
  readonly agentId: string;
  readonly components: KubernetesComponents;
  /** Adds a node that is ready and takes no Pod, until it is disposed of. */
  addFakeNode(name: string, signal: AbortSignal): Promise<AsyncDisposable>;
  /** Ends everything; stopping twice is no error. */
  stop(): Promise<void>;
};

const nodeName = "node";
const tokenAnswer = z.object({ status: z.object({ token: z.string() }) });

/**
 * Starts a real cluster in namespaces of its own and waits until its node takes Pods, and its Pods get identities. All
 * of it ends with this process. Needs root; rejects with the reason where it cannot run, and with the end of the log
 * of what does not start.
 */
export async function startKubernetes(options: KubernetesOptions, signal: AbortSignal): Promise<Kubernetes> {
  const { folder, trustDomain, clusterName = "homelab" } = options;
  const parts = options.parts ?? (await prepareCluster({}, signal));
  const { peers, environment } = parts;
  await using stack = new AsyncDisposableStack();
  const below = (name: string) => join(folder, name);
  for (const name of ["logs", "certificates", "spire", "spire-node", "etcd"])
    await mkdir(below(name), { recursive: true, mode: name === "etcd" ? 0o700 : 0o755 });

  const slot = await takeSlot(await cgroupMounts(), signal);
  stack.defer(() => slot.release());
  const { hostIp, nodeIp } = slot;
  const hosts = { [nodeName]: nodeIp };
  const namespaces = await createNamespaces({ folder, hostName: nodeName, hosts, environment }, signal);
  const running: Component[] = [];
  stack.defer(async () => {
    await namespaces.stop();
    await Promise.all(running.map((component) => component.process().stop(0)));
  });
  await joinNetwork(slot, namespaces, environment, signal);

  const programs: Record<string, string> = {};
  for (const [name, { binary }] of Object.entries(peers)) programs[name] = binary;
  for (const name of ["containerd", "ctr"]) programs[name] = await debianProgram(name, environment);
  const launch = createLaunch(namespaces, programs, below("logs"), environment);
  const start = async (recipe: ComponentRecipe, abort: AbortSignal) => {
    const component = await startComponent(recipe, abort);
    running.push(component);
    return component;
  };
  const started: { -readonly [name in keyof KubernetesComponents]?: Component } = {};
  const found: { spire?: Spire; nodeUid?: string } = {};

  const node = { name: nodeName, ip: nodeIp };
  const certificates = await createCertificates(below("certificates"), node, systemClock.now());
  const server = `https://${nodeIp}:${apiServerPort}`;
  const { ca } = certificates;
  const kubeconfig = async (name: "admin" | "controllerManager" | "scheduler" | "node") =>
    await writeKubeconfig(below(`certificates/${name}.kubeconfig`), { server, ca }, certificates[name]);
  const adminKubeconfig = await kubeconfig("admin");
  const flags = controlPlane({
    folder,
    nodeIp,
    certificates,
    controllerManagerKubeconfig: await kubeconfig("controllerManager"),
    schedulerKubeconfig: await kubeconfig("scheduler"),
  });
  const nodeKubeconfig = await kubeconfig("node");
  const files = await writeNodeFiles({ folder, cgroup: slot.name, certificates });
  const api = stack.use(await openClusterApi(server, ca, certificates.admin));
  const cluster: SpireCluster = {
    name: clusterName,
    kubeconfig: adminKubeconfig,
    serviceAccount: agentServiceAccount,
  };
  const atOnce = async () => true;

  // What waits for nothing but itself, side by side; the images take longest.
  await together(
    signal,
    async (abort) => {
      const given = { spireServer: peers["spire-server"], spireAgent: peers["spire-agent"] };
      const { cacheReloadInterval, syncInterval } = options;
      const intervals = {
        ...(cacheReloadInterval === undefined ? {} : { cacheReloadInterval }),
        ...(syncInterval === undefined ? {} : { syncInterval }),
      };
      const where = { folder: below("spire"), address: hostIp, peers: given, ...intervals };
      const spire = await startSpire({ ...where, trustDomain, cluster }, abort);
      stack.defer(() => spire.stop());
      found.spire = spire;
    },
    async (abort) => {
      const etcd = { name: "etcd", args: flags.etcd, isReady: atOnce };
      started.etcd = await start(launch(etcd), abort);
      const isReady = async (inner: AbortSignal) => (await api.ask("GET", "/readyz", inner)).text === "ok";
      const apiServer = launch({ name: "kube-apiserver", args: flags.apiServer, isReady });
      started.apiServer = await start(apiServer, abort);
      await installObjects(api, parts.crds, abort);
    },
    async (abort) => {
      await copyImageStore(parts.images, files.containerd.root, environment, abort);
      const containerd = await startContainerd(files.containerd, launch, abort);
      running.push(containerd);
      started.containerd = containerd;
      const { debian, programs: base } = parts.layers;
      const sources = await sourcesLayer(programPeers(peers), folder, parts, abort);
      const image = executorImageOf(parts.layers, sources);
      const given = { folder: below("images"), socket: files.containerd.socket, without: [debian, base] };
      await importImages([image], given, namespaces, abort);
    },
  );
  const { spire } = found;
  if (spire === undefined) throw new Error("SPIRE was not started");
  await together(
    signal,
    async (abort) => {
      const args = flags.controllerManager;
      const manager = launch({ name: "kube-controller-manager", args, isReady: atOnce });
      started.controllerManager = await start(manager, abort);
      const scheduler = launch({ name: "kube-scheduler", args: flags.scheduler, isReady: atOnce });
      started.scheduler = await start(scheduler, abort);
    },
    async (abort) => {
      const recipe = await entryController({
        folder: below("spire-node"),
        launch,
        address: nodeIp,
        kubeconfig: adminKubeconfig,
        clusterName,
        className: options.className ?? "spire-mgmt-spire",
        trustDomain,
        serverSocket: spire.serverSocket,
      });
      started.spireControllerManager = await start(recipe, abort);
    },
    async (abort) => {
      const isReady = async (inner: AbortSignal) => {
        const read = await api.read(`/api/v1/nodes/${nodeName}`, inner);
        found.nodeUid = read.metadata.uid ?? "";
        return hasCondition(read, "Ready");
      };
      const args = [
        `--config=${files.kubeletConfiguration}`,
        `--kubeconfig=${nodeKubeconfig}`,
        `--hostname-override=${nodeName}`,
        `--node-ip=${nodeIp}`,
        `--root-dir=${files.kubeletRoot}`,
        `--cert-dir=${files.kubeletRoot}/pki`,
        "--v=2",
      ];
      started.kubelet = await start(launch({ name: "kubelet", args, isReady }), abort);
      const { kubeletRoot } = files;
      const common = { api, launch, spire, cluster, nodeName, certificates, kubeletRoot };
      const both = await startSpireNode({ folder: below("spire-node"), ...common }, abort);
      running.push(both.agent, both.csi);
      started.spireAgent = both.agent;
      started.csi = both.csi;
    },
  );

  let kubeconfigs = 0;
  const tokenFor: Kubernetes["tokenFor"] = async ({ namespace, name }, abort) => {
    const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`;
    const spec = { expirationSeconds: 86_400 };
    const body = { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec };
    return tokenAnswer.parse(await api.create(path, body, abort)).status.token;
  };
  const nodeUid = found.nodeUid ?? "";
  const all = stack.move();
  const stop = () => all.disposeAsync();
  return {
    name: slot.name,
    server,
    ca,
    adminKubeconfig,
    api,
    tokenFor,
    kubeconfigFor: async (account, abort) => {
      const token = await tokenFor(account, abort);
      const file = below(`certificates/${account.name}-${++kubeconfigs}.kubeconfig`);
      return await writeKubeconfig(file, { server, ca, namespace: account.namespace }, { token });
    },
    nodeName,
    nodeUid,
    hostAddress: hostIp,
    executorImage,
    spire,
    clusterName,
    agentId: `spiffe://${trustDomain}/spire/agent/k8s_psat/${clusterName}/${nodeUid}`,
    components: started as KubernetesComponents,
    addFakeNode: async (name, abort) => await addFakeNode(api, name, abort),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
