import type { input } from "@pulumi/kubernetes/types/index.js";
import type { Input } from "@pulumi/pulumi";
import { folders } from "./controller-environment.ts";
import type { ControllerArgs } from "./controller.ts";
import { controllerLabels } from "./registration.ts";
import type { Settings } from "./settings.ts";

/** As the image has it. */
const userId = 65_532;
/** As long as the controller may take to hand back what it has. */
const graceSeconds = 90;

/** `configuration` and `kept`: the names of the ConfigMap and the Secret. */
export function controllerPod(
  { names, settings, images }: Pick<ControllerArgs, "names" | "settings" | "images">,
  configuration: Input<string>,
  kept: Input<string>,
): input.core.v1.PodSpec {
  const { nodeSelector, tolerations, resources } = settings.controller;
  return {
    serviceAccountName: names.controller,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: graceSeconds,
    securityContext: {
      runAsNonRoot: true,
      runAsUser: userId,
      runAsGroup: userId,
      fsGroup: userId,
      seccompProfile: { type: "RuntimeDefault" },
    },
    nodeSelector,
    tolerations,
    ...awayFromExecutors(settings),
    topologySpreadConstraints: [
      {
        maxSkew: 1,
        topologyKey: "kubernetes.io/hostname",
        whenUnsatisfiable: "ScheduleAnyway",
        labelSelector: { matchLabels: controllerLabels(names) },
      },
    ],
    containers: [
      {
        name: "controller",
        image: images.controller,
        envFrom: [{ configMapRef: { name: configuration } }],
        env: [{ name: "HOSTNAME", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } }],
        ports: [
          { name: "facade", containerPort: names.facadePort },
          { name: "health", containerPort: names.healthPort },
        ],
        livenessProbe: probe("/livez", 10),
        readinessProbe: probe("/readyz", 5),
        resources,
        securityContext: {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] },
        },
        volumeMounts: [
          { name: "secrets", mountPath: folders.secrets, readOnly: true },
          { name: "spire-agent-socket", mountPath: folders.agent, readOnly: true },
          { name: "tmp", mountPath: "/tmp" },
        ],
      },
    ],
    volumes: [
      { name: "secrets", secret: { secretName: kept, defaultMode: 0o440 } },
      { name: "spire-agent-socket", csi: { driver: "csi.spiffe.io", readOnly: true } },
      { name: "tmp", emptyDir: { sizeLimit: "64Mi" } },
    ],
  };
}

function probe(path: string, periodSeconds: number): input.core.v1.Probe {
  return { httpGet: { path, port: "health" }, periodSeconds, timeoutSeconds: 5 };
}

/**
 * Privileged executors are root on their nodes, so the controller with its secrets runs on no node that fits them: of
 * the labels of each of their node selectors one has to be another. Nothing if executors run anywhere.
 */
export function awayFromExecutors({ components, pod, vm }: Pick<Settings, "components" | "pod" | "vm">): {
  readonly affinity?: input.core.v1.Affinity;
} {
  const selectors = [
    ...(components.includes("pod-worker") ? [pod.nodeSelector] : []),
    ...(components.includes("vm-worker") && vm !== undefined ? [vm.pool.nodeSelector] : []),
  ].map((labels) => Object.entries(labels));
  const restricting = selectors.filter((labels) => labels.length > 0);
  if (restricting.length === 0) return {};
  const terms = restricting.reduce<readonly (readonly [string, string])[][]>(
    (begun, labels) => begun.flatMap((term) => labels.map((label) => [...term, label])),
    [[]],
  );
  const nodeSelectorTerms = terms.map((term) => ({
    matchExpressions: term.map(([key, value]) => ({ key, operator: "NotIn", values: [value] })),
  }));
  const required = { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } };
  return { affinity: { nodeAffinity: required } };
}
