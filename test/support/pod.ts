import type { PodSettings } from "../../controller/backends/pod/pod-settings.ts";

/** Settings with nothing but what every Pod needs. */
export function podSettings(overrides: Partial<PodSettings> = {}): PodSettings {
  return {
    namespace: "gitea-actions",
    serviceAccount: "gitea-task-executor",
    image: "registry.example.org/runner@sha256:0123",
    uid: 2000,
    imagePullSecrets: [],
    nodeSelector: {},
    tolerations: [],
    ...overrides,
  };
}

/** Settings with everything that can be set. */
export const allPodSettings: PodSettings = podSettings({
  resources: { requests: { cpu: "500m", memory: "1Gi" }, limits: { cpu: "4", memory: "8Gi" } },
  imagePullSecrets: ["registry", "mirror"],
  nodeSelector: { "example.org/ci": "yes" },
  tolerations: [{ key: "example.org/ci", operator: "Exists", effect: "NoSchedule" }],
  runtimeClass: "runc-ci",
  dnsPolicy: "Default",
});
