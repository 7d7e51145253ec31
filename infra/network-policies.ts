import type { Provider } from "@pulumi/kubernetes";
import { NetworkPolicy } from "@pulumi/kubernetes/networking/v1/index.js";
import type { input } from "@pulumi/kubernetes/types/index.js";
import { ComponentResource, type ComponentResourceOptions } from "@pulumi/pulumi";
import type { Names } from "./names.ts";
import { controllerLabels } from "./registration.ts";
import type { Settings } from "./settings.ts";
import { taskExecutorPort } from "./vm-pool.ts";

export type NetworkPoliciesArgs = {
  readonly names: Names;
  readonly provider: Provider;
  readonly network: Settings["network"];
  readonly withPods: boolean;
  /** Where VMs are made: who alone may call them, anybody unless given. */
  readonly vms?: { readonly callersNamespace: string | undefined };
};

/** Label of the Pods that the controller makes. */
const executorLabels = { "ci.ddupan.top/runner": "true" };
/** Label that OpenSandbox's controller gives the Pods of a pool. */
const poolLabel = "sandbox.opensandbox.io/pool-name";

/** Where clouds have their metadata, with credentials of the node in it. */
const linkLocal = "169.254.0.0/16";

const inNamespace = (name: string) => ({
  namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": name } },
});

const dns = {
  to: [inNamespace("kube-system")],
  ports: [
    { protocol: "UDP", port: 53 },
    { protocol: "TCP", port: 53 },
  ],
};

/** Whom executors that are Pods may call, see `executorEgress`. Nobody may call them. */
export function executorPolicy(
  network: Settings["network"],
  names: Names,
): input.networking.v1.NetworkPolicySpec {
  return {
    podSelector: { matchLabels: executorLabels },
    policyTypes: ["Ingress", "Egress"],
    ingress: [],
    egress: executorEgress(network, names),
  };
}

/**
 * The same for VMs of a pool. OpenSandbox's controller brings a job to them, by a port where whoever reaches it can run
 * anything.
 */
export function vmPolicy(
  network: Settings["network"],
  names: Names,
  pool: string,
  callersNamespace: string | undefined,
): input.networking.v1.NetworkPolicySpec {
  return {
    podSelector: { matchLabels: { [poolLabel]: pool } },
    policyTypes: [...(callersNamespace === undefined ? [] : ["Ingress"]), "Egress"],
    ...(callersNamespace === undefined
      ? {}
      : {
          ingress: [
            { from: [inNamespace(callersNamespace)], ports: [{ protocol: "TCP", port: taskExecutorPort }] },
          ],
        }),
    egress: executorEgress(network, names),
  };
}

/**
 * The facade, names, the internet, and what of the internal networks is allowed by name. Never NATS, the API server or a
 * cloud's metadata: these are in the internal networks. Nothing by IPv6, since no rule names an address of it.
 */
function executorEgress(
  { internal, allowed }: Settings["network"],
  names: Names,
): input.networking.v1.NetworkPolicyEgressRule[] {
  return [
    dns,
    {
      to: [{ ...inNamespace(names.namespace), podSelector: { matchLabels: controllerLabels(names) } }],
      ports: [{ protocol: "TCP", port: names.facadePort }],
    },
    { to: [{ ipBlock: { cidr: "0.0.0.0/0", except: [...new Set([...internal, linkLocal])] } }] },
    ...allowed.map(towards),
  ];
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
  return {
    to: [{ ipBlock: { cidr } }],
    ports: ports.flatMap((port) => protocolsOf(port).map((protocol) => ({ protocol, port }))),
  };
}

/** Names are asked for by UDP: of a resolver on the node itself, which no namespace is. */
function protocolsOf(port: number): readonly string[] {
  return port === 53 ? ["TCP", "UDP"] : ["TCP"];
}

type ObjectPlace = { readonly name: string; readonly namespace: string };

/** What the network lets through, where it has a plugin that keeps policies. */
export class NetworkPolicies extends ComponentResource {
  constructor(name: string, args: NetworkPoliciesArgs, options?: ComponentResourceOptions) {
    super("gitea-dynamic-runner:index:NetworkPolicies", name, {}, options);
    const { names, provider, network, withPods, vms } = args;
    const child = { parent: this, provider };
    const policy = (role: string, of: ObjectPlace, spec: input.networking.v1.NetworkPolicySpec) =>
      new NetworkPolicy(role, { metadata: { ...of }, spec }, child);
    policy(
      "controller",
      { name: "controller", namespace: names.namespace },
      controllerPolicy(network, names),
    );
    if (withPods)
      policy(
        "executors",
        { name: "executors", namespace: names.executorNamespace },
        executorPolicy(network, names),
      );
    if (vms !== undefined && names.pool !== undefined)
      policy("vms", names.pool, vmPolicy(network, names, names.pool.name, vms.callersNamespace));
    this.registerOutputs({});
  }
}
