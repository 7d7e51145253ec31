import { type SpireCluster } from "../spire-settings.ts";
import { type Spire, startSpire } from "../start-spire.ts";
import { entryController } from "./entry-controller.ts";
import { addFakeNode } from "./fake-node.ts";
import { executorImage } from "./image/references.ts";
import { writeKubeconfig } from "./kubeconfig.ts";
import type { Kubernetes, KubernetesOptions } from "./kubernetes.ts";
import { prepareCluster } from "./prepare-cluster.ts";
import { serviceAccountToken } from "./service-account-token.ts";
import { openSite, type Site } from "./site.ts";
import { agentServiceAccount, startSpireNode } from "./spire-node.ts";
import { startApiServer, startControllers } from "./start-control-plane.ts";
import { addControllerImage, startKubelet, startRuntime } from "./start-node.ts";
import { together } from "./together.ts";

/** Nobody else is in the cluster's network namespace. */
const entryControllerPort = 18_084;

/**
 * Starts a real cluster in namespaces of its own and waits until its node takes Pods, and its Pods get identities. All
 * of it ends with this process. Needs root; rejects with the reason where it cannot run, and with the end of the log
 * of what does not start.
 */
export async function startKubernetes(options: KubernetesOptions, signal: AbortSignal): Promise<Kubernetes> {
  const { folder, trustDomain, clusterName = "homelab", className = "spire-mgmt-spire" } = options;
  const parts = options.parts ?? (await prepareCluster({}, signal));
  await using stack = new AsyncDisposableStack();
  const site = await openSite(folder, parts, stack, signal);
  const { api, slot, server, kubeconfigs, nodeName } = site;
  const { ca } = site.certificates;
  const cluster: SpireCluster = {
    name: clusterName,
    kubeconfig: kubeconfigs.admin,
    serviceAccount: agentServiceAccount,
  };

  const [spire, plane, { containerd, executor }] = await together(
    signal,
    async (abort): Promise<Spire> => {
      const started = await startSpireServer(site, cluster, options, abort);
      stack.defer(() => started.stop());
      return started;
    },
    async (abort) => await startApiServer(site, abort),
    async (abort) => await startRuntime(site, abort),
  );
  const [controllers, spireControllerManager, node] = await together(
    signal,
    async (abort) => await startControllers(site, abort),
    async (abort) => {
      const { serverSocket } = spire;
      const program = await entryController({
        clusterName,
        className,
        trustDomain,
        serverSocket,
        kubeconfig: kubeconfigs.admin,
        file: site.below("spire-node/controller-manager.json"),
        health: `${slot.nodeIp}:${entryControllerPort}`,
      });
      return await site.start(site.launch(program), abort);
    },
    async (abort) => {
      const kubelet = await startKubelet(site, abort);
      return { ...kubelet, ...(await startSpireNode(site, spire, clusterName, abort)) };
    },
  );

  let kubeconfigCount = 0;
  const tokenFor: Kubernetes["tokenFor"] = async (account, abort) =>
    await serviceAccountToken(api, account, {}, abort);
  const ended = new AbortController();
  stack.defer(() => ended.abort(new Error("the cluster has ended")));
  const all = stack.move();
  const stop = () => all.disposeAsync();
  const { nodeUid, ...nodeComponents } = node;
  return {
    name: slot.name,
    server,
    ca,
    adminKubeconfig: kubeconfigs.admin,
    api,
    tokenFor,
    kubeconfigFor: async (account, abort) => {
      const token = await tokenFor(account, abort);
      const file = site.below(`certificates/${account.name}-${++kubeconfigCount}.kubeconfig`);
      return await writeKubeconfig(file, { server, ca, namespace: account.namespace }, { token });
    },
    nodeName,
    nodeUid,
    hostAddress: slot.hostIp,
    executorImage,
    executorByDigest: executor,
    addControllerImage: async (abort) => await addControllerImage(site, abort),
    spire,
    clusterName,
    agentId: `spiffe://${trustDomain}/spire/agent/k8s_psat/${clusterName}/${nodeUid}`,
    components: { ...plane, containerd, ...controllers, spireControllerManager, ...nodeComponents },
    addFakeNode: async (name, abort) => await addFakeNode(api, name, ended.signal, abort),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

/** SPIRE's server, reachable for the node, and the agent for processes of this machine. */
async function startSpireServer(
  { below, slot, parts }: Site,
  cluster: SpireCluster,
  { trustDomain, cacheReloadInterval, syncInterval }: KubernetesOptions,
  signal: AbortSignal,
): Promise<Spire> {
  const peers = { spireServer: parts.peers["spire-server"], spireAgent: parts.peers["spire-agent"] };
  const intervals = { cacheReloadInterval, syncInterval };
  const where = { folder: below("spire"), address: slot.hostIp };
  return await startSpire({ ...where, ...intervals, peers, trustDomain, cluster }, signal);
}
