import type { Provider } from "@pulumi/kubernetes";
import { Namespace, ResourceQuota, ServiceAccount } from "@pulumi/kubernetes/core/v1/index.js";
import { ComponentResource, type ComponentResourceOptions } from "@pulumi/pulumi";
import type { Names } from "./names.ts";

export type NamespacesArgs = {
  readonly names: Names;
  readonly provider: Provider;
  readonly protect: boolean;
  /** Whether executors are Pods, and what these may use together. */
  readonly withPods: boolean;
  readonly quota: Readonly<Record<string, string>> | undefined;
};

/**
 * The controller's namespace and the executors', each with its service account. Executors' Pods are privileged, for
 * Docker, so their namespace allows what the controller's forbids.
 */
export class Namespaces extends ComponentResource {
  constructor(name: string, args: NamespacesArgs, options?: ComponentResourceOptions) {
    super("gitea-dynamic-runner:index:Namespaces", name, {}, options);
    const { names, provider, protect, withPods, quota } = args;
    const inside = { parent: this, provider };
    const namespace = (role: string, of: string, level: "restricted" | "privileged") =>
      new Namespace(
        role,
        { metadata: { name: of, labels: { "pod-security.kubernetes.io/enforce": level } } },
        { ...inside, protect },
      );
    const own = namespace("controller", names.namespace, "restricted");
    new ServiceAccount(
      "controller",
      { metadata: { name: names.controller, namespace: names.namespace } },
      { ...inside, dependsOn: own },
    );
    if (withPods) {
      const executors = namespace("executors", names.executorNamespace, "privileged");
      new ServiceAccount(
        "executors",
        {
          metadata: { name: names.executorServiceAccount, namespace: names.executorNamespace },
          automountServiceAccountToken: false,
        },
        { ...inside, dependsOn: executors },
      );
      if (quota !== undefined)
        new ResourceQuota(
          "executors",
          { metadata: { name: "executors", namespace: names.executorNamespace }, spec: { hard: quota } },
          { ...inside, dependsOn: executors },
        );
    }
    this.registerOutputs({});
  }
}
