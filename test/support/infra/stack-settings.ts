const digest = `sha256:${"a".repeat(64)}`;

/** What a stack's file may say at least, with Pods and VMs; secrets apart. */
export function stackSettings(overrides: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  return {
    kubeContext: "homelab",
    gitea: { url: "https://gitea.example.org", runnerUuid: "8a1d5c1e-5b0b-4e0b-9a53-0d3f0a3b8f11" },
    nats: { url: "nats://nats.nats.svc:4222", user: "runner" },
    spire: {
      trustDomain: "example.org",
      agentId: "spiffe://example.org/spire/agent/k8s_psat/{cluster}/{nodeUid}",
    },
    vm: {
      api: "http://opensandbox.opensandbox.svc:8080",
      poolNamespace: "opensandbox",
      taskExecutor: "registry.example.org/opensandbox/task-executor:v0.1.0",
    },
    images: {
      source: "published",
      pullRegistry: "registry.example.org",
      controller: { repository: "ci/controller", digest },
      runner: { repository: "ci/runner", digest },
    },
    ...overrides,
  };
}

/** The same for a development stack beside it, which takes other jobs only. */
export function devSettings(overrides: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  const vm = { ...(stackSettings()["vm"] as object), label: "vm-dev" };
  return stackSettings({ suffix: "dev", components: ["scheduler", "vm-worker"], vm, ...overrides });
}

export const allSecrets = new Set([
  "giteaRunnerToken",
  "natsPassword",
  "capabilityKeys",
  "openSandboxApiKey",
]);
