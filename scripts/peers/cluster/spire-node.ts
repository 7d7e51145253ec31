import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { agentTokenAudience, nodeAgentConfiguration } from "../spire-settings.ts";
import type { Spire } from "../start-spire.ts";
import type { ClusterApi } from "./api.ts";
import { type Component, untilTrue } from "./component.ts";
import { sandboxImage } from "./image/references.ts";
import { serviceAccountToken } from "./service-account-token.ts";
import type { Site } from "./site.ts";

const podStatus = z.object({ phase: z.string() });
const account = { namespace: "spire", name: "spire-agent" } as const;
/** What executors' Pods expect in the folder that the CSI driver gives them. */
const socketName = "spire-agent.sock";

/** As `SpireCluster` spells it. */
export const agentServiceAccount = `${account.namespace}:${account.name}`;

/**
 * Starts the node's agent, and the CSI driver's stand-in that gives its socket to Pods. The agent is a process, not a
 * Pod; the token by which the server knows it is that of a Pod which does nothing.
 */
export async function startSpireNode(
  site: Site,
  spire: Spire,
  clusterName: string,
  signal: AbortSignal,
): Promise<{ readonly spireAgent: Component; readonly csi: Component }> {
  const { api, launch, nodeName, certificates } = site;
  const below = (name: string) => site.below(`spire-node/${name}`);
  const sockets = below("sockets");
  const socket = join(sockets, socketName);
  await mkdir(sockets, { mode: 0o755 });
  await mkdir(below("data"), { mode: 0o700 });
  const csiRecipe = launch({
    name: "csi-stand-in",
    args: [sockets, site.node.kubeletRoot, nodeName],
    isReady: async (abort) => {
      const node = await api.read(`/apis/storage.k8s.io/v1/csinodes/${nodeName}`, abort);
      return JSON.stringify(node).includes('"csi.spiffe.io"');
    },
  });
  const csi = await site.start(csiRecipe, signal);
  await writeFile(below("token"), await podToken(api, nodeName, signal), { mode: 0o600 });
  const configuration = nodeAgentConfiguration({
    trustDomain: spire.trustDomain,
    socket,
    dataFolder: below("data"),
    serverAddress: spire.serverAddress,
    serverPort: spire.serverPort,
    bundleFile: spire.bundleFile,
    cluster: clusterName,
    tokenFile: below("token"),
    nodeName,
    kubeletCa: certificates.ca,
    kubeletClient: certificates.admin,
  });
  await writeFile(below("agent.json"), JSON.stringify(configuration), { mode: 0o600 });
  const agentRecipe = launch({
    name: "spire-agent",
    args: ["run", "-config", below("agent.json")],
    // It hears only of processes in its own process namespace: the question is asked from there.
    isReady: async (abort) => {
      await launch.ask("spire-agent", ["healthcheck", "-socketPath", socket], abort);
      return true;
    },
  });
  return { csi, spireAgent: await site.start(agentRecipe, signal) };
}

/** The token of a Pod on the node, which stands for the agent. */
async function podToken(api: ClusterApi, nodeName: string, signal: AbortSignal): Promise<string> {
  const { namespace, name } = account;
  const pods = `/api/v1/namespaces/${namespace}/pods`;
  const pod = await api.create(
    pods,
    {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, namespace },
      spec: {
        serviceAccountName: name,
        automountServiceAccountToken: false,
        nodeName,
        // As a DaemonSet's: it stays on a node that is lost.
        tolerations: [{ operator: "Exists" }],
        dnsPolicy: "Default",
        terminationGracePeriodSeconds: 1,
        containers: [{ name: "agent", image: sandboxImage, imagePullPolicy: "Never" }],
      },
    },
    signal,
  );
  const isRunning = async (abort: AbortSignal) => {
    const { status } = await api.read(`${pods}/${name}`, abort);
    return podStatus.parse(status).phase === "Running";
  };
  await untilTrue(isRunning, signal);
  const bound = { name, uid: pod.metadata.uid ?? "" };
  return await serviceAccountToken(api, account, { audience: agentTokenAudience, pod: bound }, signal);
}
