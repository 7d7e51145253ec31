import type { Provider } from "@pulumi/kubernetes";
import { NetworkPolicy } from "@pulumi/kubernetes/networking/v1/index.js";
import type { input } from "@pulumi/kubernetes/types/index.js";
import { ComponentResource, type ComponentResourceOptions } from "@pulumi/pulumi";
import type { Names } from "./names.ts";
import { controllerLabels } from "./registration.ts";
import type { Settings } from "./settings.ts";

export type NetworkPoliciesArgs = {
  readonly names: Names;
  readonly provider: Provider;
  readonly network: Settings["network"];
  readonly withPods: boolean;
};

/** Label of the Pods that the controller makes. */
const executorLabels = { "ci.ddupan.top/runner": "true" };

const dns = {
  to: [{ namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "kube-system" } } }],
  ports: [
    { protocol: "UDP", port: 53 },
    { protocol: "TCP", port: 53 },
  ],
};

/**
 * Whom executors may call: the facade, names, the internet, and what of the internal networks is allowed by name. Never
 * NATS, the API server or a cloud's metadata: these are in the internal networks. Nobody may call them.
 */
export function executorPolicy(
  { internal, allowed }: Settings["network"],
  names: Names,
): input.networking.v1.NetworkPolicySpec {
  return {
    podSelector: { matchLabels: executorLabels },
    policyTypes: ["Ingress", "Egress"],
    ingress: [],
    egress: [
      dns,
      {
        to: [
          {
            namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": names.namespace } },
            podSelector: { matchLabels: controllerLabels(names) },
          },
        ],
        ports: [{ protocol: "TCP", port: names.facadePort }],
      },
      { to: [{ ipBlock: { cidr: "0.0.0.0/0", except: [...internal] } }] },
      ...allowed.map(towards),
    ],
  };
}

/** Who may call the controller: executors the facade, anybody its health. Whom it may call is the stack's choice. */
export function controllerPolicy(
  { controller }: Settings["network"],
  names: Names,
): input.networking.v1.NetworkPolicySpec {
  return {
    podSelector: { matchLabels: controllerLabels(names) },
    policyTypes: ["Ingress", ...(controller === undefined ? [] : ["Egress"])],
    ingress: [
      { ports: [{ protocol: "TCP", port: names.facadePort }] },
      { ports: [{ protocol: "TCP", port: names.healthPort }] },
    ],
    ...(controller === undefined ? {} : { egress: [dns, ...controller.map(towards)] }),
  };
}

function towards({ cidr, ports }: Settings["network"]["allowed"][number]) {
  return { to: [{ ipBlock: { cidr } }], ports: ports.map((port) => ({ protocol: "TCP", port })) };
}

/** What the network lets through, where it has a plugin that keeps policies. */
export class NetworkPolicies extends ComponentResource {
  constructor(name: string, args: NetworkPoliciesArgs, options?: ComponentResourceOptions) {
    super("gitea-dynamic-runner:index:NetworkPolicies", name, {}, options);
    const { names, provider, network, withPods } = args;
    const child = { parent: this, provider };
    const policy = (role: string, namespace: string, spec: input.networking.v1.NetworkPolicySpec) =>
      new NetworkPolicy(role, { metadata: { name: role, namespace }, spec }, child);
    policy("controller", names.namespace, controllerPolicy(network, names));
    if (withPods) policy("executors", names.executorNamespace, executorPolicy(network, names));
    this.registerOutputs({});
  }
}
