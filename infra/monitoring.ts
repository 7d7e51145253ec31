import type { Provider } from "@pulumi/kubernetes";
import { CustomResource } from "@pulumi/kubernetes/apiextensions/index.js";
import { ComponentResource, type ComponentResourceOptions } from "@pulumi/pulumi";
import type { Names } from "./names.ts";
import { controllerLabels } from "./registration.ts";

export type MonitoringArgs = { readonly names: Names; readonly provider: Provider };

/** Metrics of the controllers for the Prometheus operator, whose definitions have to be in the cluster. */
export class Monitoring extends ComponentResource {
  constructor(name: string, { names, provider }: MonitoringArgs, options?: ComponentResourceOptions) {
    super("gitea-dynamic-runner:index:Monitoring", name, {}, options);
    new CustomResource(
      "controller",
      {
        apiVersion: "monitoring.coreos.com/v1",
        kind: "PodMonitor",
        metadata: { name: names.controller, namespace: names.namespace },
        spec: {
          selector: { matchLabels: controllerLabels(names) },
          podMetricsEndpoints: [{ port: "health", path: "/metrics" }],
        },
      },
      { parent: this, provider },
    );
    this.registerOutputs({});
  }
}
