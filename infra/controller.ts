import { createHash } from "node:crypto";
import type { Provider } from "@pulumi/kubernetes";
import { Deployment } from "@pulumi/kubernetes/apps/v1/index.js";
import { ConfigMap, Secret, Service } from "@pulumi/kubernetes/core/v1/index.js";
import { PodDisruptionBudget } from "@pulumi/kubernetes/policy/v1/index.js";
import { all, ComponentResource, type ComponentResourceOptions, type Input, unsecret } from "@pulumi/pulumi";
import { controllerEnvironment, secretFiles } from "./controller-environment.ts";
import { controllerPod } from "./controller-pod.ts";
import type { Names } from "./names.ts";
import { type SecretName, secretsFor } from "./read-settings.ts";
import { controllerLabels } from "./registration.ts";
import type { Settings } from "./settings.ts";

export type ControllerArgs = {
  readonly names: Names;
  readonly provider: Provider;
  readonly settings: Settings;
  readonly secrets: Readonly<Partial<Record<SecretName, Input<string>>>>;
  /** By digest. */
  readonly images: { readonly controller: Input<string>; readonly runner: Input<string> };
};

/**
 * The controllers, of which one leads, with configuration and secrets, and the service by which executors find the
 * leader's facade: headless, since only the leader listens and executors try each address.
 */
export class Controller extends ComponentResource {
  constructor(name: string, args: ControllerArgs, options?: ComponentResourceOptions) {
    super("gitea-dynamic-runner:index:Controller", name, {}, options);
    const { names, provider, settings, secrets, images } = args;
    const child = { parent: this, provider };
    const labels = controllerLabels(names);
    const metadata = { name: names.controller, namespace: names.namespace };

    const plain = controllerEnvironment(settings, names);
    const environment: Readonly<Record<string, Input<string>>> = settings.components.includes("pod-worker")
      ? { ...plain, POD_EXECUTOR_IMAGE: images.runner }
      : plain;
    const files = fileContents(settings, secrets);
    const configuration = new ConfigMap("configuration", { metadata, data: environment }, child);
    const kept = new Secret("secrets", { metadata, stringData: files }, child);
    // A Pod does not start anew by itself when what it has read at its start changes. The keys, long as they are, keep
    // anybody from finding a secret by its hash, and a secret here would hide the whole Deployment in previews.
    const hash = unsecret(all([environment, files]).apply(hashOf));

    new Deployment(
      "controller",
      {
        metadata: { ...metadata, labels },
        spec: {
          replicas: settings.controller.replicas,
          selector: { matchLabels: labels },
          strategy: { type: "RollingUpdate", rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } },
          template: {
            metadata: { labels, annotations: { "ci.ddupan.top/configuration": hash } },
            spec: controllerPod(args, configuration.metadata.name, kept.metadata.name),
          },
        },
      },
      { ...child, dependsOn: [configuration, kept] },
    );
    new Service(
      "facade",
      {
        metadata: { name: names.facadeService, namespace: names.namespace, labels },
        spec: {
          clusterIP: "None",
          selector: labels,
          ports: [{ name: "facade", port: names.facadePort }],
          // The leader's address counts while its health is red as well: jobs are running.
          publishNotReadyAddresses: true,
        },
      },
      child,
    );
    new PodDisruptionBudget(
      "controller",
      { metadata, spec: { maxUnavailable: 1, selector: { matchLabels: labels } } },
      child,
    );
    if (settings.components.includes("pod-worker"))
      new PodDisruptionBudget(
        "executors",
        {
          metadata: { name: "executors", namespace: names.executorNamespace },
          // A job cannot be moved: whoever drains a node waits for it.
          spec: { maxUnavailable: 0, selector: { matchLabels: { "ci.ddupan.top/runner": "true" } } },
        },
        child,
      );
    this.registerOutputs({});
  }
}

function fileContents({ components, nats, vm }: Settings, secrets: ControllerArgs["secrets"]) {
  const contents = secretsFor(components).map((name) => [secretFiles[name], secrets[name]] as const);
  const given = [
    ...contents,
    [secretFiles.natsCa, nats.ca] as const,
    [secretFiles.openSandboxCa, vm?.ca] as const,
  ];
  return Object.fromEntries(
    given.flatMap(([file, content]) => (content === undefined ? [] : [[file, content] as const])),
  );
}

function hashOf(contents: unknown): string {
  return createHash("sha256").update(JSON.stringify(contents)).digest("hex");
}
