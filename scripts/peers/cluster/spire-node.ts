import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { agentTokenAudience, nodeAgentConfiguration, type SpireCluster } from "../spire-settings.ts";
import type { Spire } from "../start-spire.ts";
import type { ClusterApi } from "./api.ts";
import type { ClusterCertificates } from "./certificates.ts";
import { type Component, startComponent, untilTrue } from "./component.ts";
import { sandboxImage } from "./image/references.ts";
import type { Launch } from "./launch.ts";

export type SpireNodeOptions = {
  readonly folder: string;
  readonly api: ClusterApi;
  readonly launch: Launch;
  readonly spire: Spire;
  readonly cluster: SpireCluster;
  readonly nodeName: string;
  readonly certificates: ClusterCertificates;
  readonly kubeletRoot: string;
};

const tokenAnswer = z.object({ status: z.object({ token: z.string() }) });
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
  options: SpireNodeOptions,
  signal: AbortSignal,
): Promise<{ readonly agent: Component; readonly csi: Component }> {
  const { api, launch, spire, cluster, nodeName, certificates } = options;
  const below = (name: string) => join(options.folder, name);
  const sockets = below("sockets");
  await mkdir(sockets, { recursive: true, mode: 0o755 });
  await mkdir(below("data"), { recursive: true, mode: 0o700 });
  const csi = await startComponent(
    launch({
      name: "csi-stand-in",
      args: [sockets, options.kubeletRoot, nodeName],
      isReady: async (abort) => {
        const path = `/apis/storage.k8s.io/v1/csinodes/${nodeName}`;
        return JSON.stringify(await api.read(path, abort)).includes('"csi.spiffe.io"');
      },
    }),
    signal,
  );
  try {
    await writeFile(below("token"), await podToken(api, nodeName, signal), { mode: 0o600 });
    const configuration = nodeAgentConfiguration({
      trustDomain: spire.trustDomain,
      socket: join(sockets, socketName),
      dataFolder: below("data"),
      serverAddress: spire.serverAddress,
      serverPort: spire.serverPort,
      bundleFile: spire.bundleFile,
      cluster: cluster.name,
      tokenFile: below("token"),
      nodeName,
      kubeletCa: certificates.ca,
      kubeletClient: certificates.admin,
    });
    await writeFile(below("agent.json"), JSON.stringify(configuration), { mode: 0o600 });
    const agent = await startComponent(
      launch({
        name: "spire-agent",
        args: ["run", "-config", below("agent.json")],
        // It hears only of processes in its own process namespace: the question is asked from there.
        isReady: async (abort) => {
          const question = ["healthcheck", "-socketPath", join(sockets, socketName)];
          await launch.ask("spire-agent", question, abort);
          return true;
        },
      }),
      signal,
    );
    return { agent, csi };
  } catch (error) {
    await csi.stop();
    throw error;
  }
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
  const request = {
    apiVersion: "authentication.k8s.io/v1",
    kind: "TokenRequest",
    spec: {
      audiences: [agentTokenAudience],
      boundObjectRef: { apiVersion: "v1", kind: "Pod", name, uid: pod.metadata.uid },
      expirationSeconds: 86_400,
    },
  };
  const tokens = `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`;
  return tokenAnswer.parse(await api.create(tokens, request, signal)).status.token;
}
