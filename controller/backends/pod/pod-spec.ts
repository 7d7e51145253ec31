import type { ExecutorEnvironment } from "../../assignment/executor-environment.ts";
import {
  executorAnnotations,
  executorLabels,
  executorName,
  type Texts,
} from "../../assignment/executor-metadata.ts";
import type { ExecutorRequest } from "../backend.ts";
import type { JsonObject } from "../../kubernetes/json.ts";
import type { PodSettings } from "./pod-settings.ts";

/** The one container that counts: its state is the executor's, and it alone is given the identity. */
export const executorContainer = "executor";

/** Where the SPIFFE CSI driver puts the folder with the agent's socket. */
export const socketVolume = { name: "spire-agent-socket", folder: "/run/spire/agent-sockets" } as const;

/** Where Docker keeps its data: an overlay file system cannot lie on another one, so not in the container's own. */
export const dockerVolume = { name: "docker-data", folder: "/var/lib/docker" } as const;

/** Asks those who move Pods about to leave this one alone: a job cannot be moved. */
const undisturbed: Texts = {
  "karpenter.sh/do-not-disrupt": "true",
  "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
  // The descheduler looks at its presence only; its older `evict` can say nothing but yes.
  "descheduler.alpha.kubernetes.io/prefer-no-eviction": "true",
};

/** `activeDeadlineSeconds` is an int32. */
const longestSeconds = 2 ** 31 - 1;

/**
 * The Pod of one attempt, without the operator's patch. The deadline counts from when a node takes the Pod, so time
 * that it spends unscheduled comes on top: whoever knows the real deadline sees to that. `now` in milliseconds since
 * the epoch.
 */
export function executorPod(request: ExecutorRequest, settings: PodSettings, now: number): JsonObject {
  const { metadata, deadlineAt } = request;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: executorName(metadata.assignment, metadata.attempt),
      namespace: settings.namespace,
      labels: executorLabels(metadata),
      annotations: { ...executorAnnotations(metadata), ...undisturbed },
    },
    spec: {
      restartPolicy: "Never",
      activeDeadlineSeconds: wholeSeconds(deadlineAt - now),
      serviceAccountName: settings.serviceAccount,
      automountServiceAccountToken: false,
      // Addresses of the namespace's services are nobody's business in a job.
      enableServiceLinks: false,
      hostNetwork: false,
      hostPID: false,
      hostIPC: false,
      ...placement(settings),
      containers: [container(request, settings)],
      volumes: [
        { name: socketVolume.name, csi: { driver: "csi.spiffe.io", readOnly: true } },
        { name: dockerVolume.name, emptyDir: { sizeLimit: "20Gi" } },
      ],
    },
  };
}

function container({ environment }: ExecutorRequest, { image, uid, resources }: PodSettings): JsonObject {
  const all: ExecutorEnvironment = {
    ...environment,
    SPIFFE_ENDPOINT_SOCKET: `unix://${socketVolume.folder}/spire-agent.sock`,
  };
  return {
    name: executorContainer,
    image,
    env: Object.entries(all).map(([name, value]) => ({ name, value })),
    ...(resources === undefined ? {} : { resources }),
    // Privileged for Docker, and yet not root: a process of another uid has no capabilities until sudo gives them,
    // and the agent knows the executor by its uid.
    securityContext: { privileged: true, runAsUser: uid, runAsGroup: uid },
    // The last lines of its log are the only thing that an executor that does not start can tell.
    terminationMessagePolicy: "FallbackToLogsOnError",
    volumeMounts: [
      { name: socketVolume.name, mountPath: socketVolume.folder, readOnly: true },
      { name: dockerVolume.name, mountPath: dockerVolume.folder },
    ],
  };
}

/** Where it may run, and what it needs for that. What is not configured is left to the cluster. */
function placement(settings: PodSettings): JsonObject {
  const { imagePullSecrets, nodeSelector, tolerations, runtimeClass, dnsPolicy } = settings;
  return {
    ...(imagePullSecrets.length === 0
      ? {}
      : { imagePullSecrets: imagePullSecrets.map((name) => ({ name })) }),
    ...(Object.keys(nodeSelector).length === 0 ? {} : { nodeSelector }),
    ...(tolerations.length === 0 ? {} : { tolerations: tolerations.map((one) => ({ ...one })) }),
    ...(runtimeClass === undefined ? {} : { runtimeClassName: runtimeClass }),
    ...(dnsPolicy === undefined ? {} : { dnsPolicy }),
  };
}

function wholeSeconds(ms: number): number {
  return Math.min(longestSeconds, Math.max(1, Math.ceil(ms / 1000)));
}
