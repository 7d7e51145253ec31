import type { Provider } from "@pulumi/kubernetes";
import { CustomResource } from "@pulumi/kubernetes/apiextensions/index.js";
import { ComponentResource, type ComponentResourceOptions, type Input } from "@pulumi/pulumi";
import { mergeTemplate } from "./merge-template.ts";
import type { Settings } from "./settings.ts";

export type VmPoolArgs = {
  /** In the namespace of the OpenSandbox server. */
  readonly pool: { readonly name: string; readonly namespace: string };
  readonly provider: Provider;
  readonly vm: NonNullable<Settings["vm"]>;
  readonly image: Input<string>;
};

/** Where OpenSandbox's controller brings a job's environment to. */
export const taskExecutorPort = 5758;
const volume = { name: "task-executor", mountPath: "/opt/task-executor" } as const;

/**
 * The pool of microVMs. Its name and namespace are fixed for good and it is always protected: to delete or to replace it
 * ends all of its VMs, with the jobs in them, and leaves their sandboxes behind.
 *
 * What a VM runs until it has a job is OpenSandbox's task-executor, out of OpenSandbox's own image; the executor's image has
 * the rest (runner-image/README.md). Its execd, which runs commands for whoever reaches it, is not there.
 */
export class VmPool extends ComponentResource {
  constructor(name: string, args: VmPoolArgs, options?: ComponentResourceOptions) {
    super("gitea-dynamic-runner:index:VmPool", name, {}, options);
    const { pool, provider, vm, image } = args;
    const { warm, template, runtimeClass, nodeSelector, tolerations, resources } = vm.pool;
    new CustomResource(
      "pool",
      {
        apiVersion: "sandbox.opensandbox.io/v1alpha1",
        kind: "Pool",
        metadata: pool,
        spec: {
          capacitySpec: {
            bufferMin: Math.min(warm, vm.capacity),
            bufferMax: Math.min(warm, vm.capacity),
            poolMin: 0,
            poolMax: vm.capacity,
          },
          // VMs start slowly; throttled, a small pool would grow by one at a time.
          scaleStrategy: { maxUnavailable: "100%" },
          recycleStrategy: { type: "Delete" },
          template: {
            spec: mergeTemplate(
              {
                runtimeClassName: runtimeClass,
                restartPolicy: "Never",
                automountServiceAccountToken: false,
                enableServiceLinks: false,
                terminationGracePeriodSeconds: 10,
                nodeSelector,
                tolerations,
                initContainers: [
                  {
                    name: volume.name,
                    image: vm.taskExecutor,
                    command: ["/bin/sh", "-c", `cp /workspace/server ${volume.mountPath}/task-executor`],
                    volumeMounts: [volume],
                  },
                ],
                containers: [
                  {
                    name: "executor",
                    image,
                    command: ["/usr/bin/tini", "--", `${volume.mountPath}/task-executor`],
                    args: [`-listen-addr=0.0.0.0:${taskExecutorPort}`],
                    resources,
                    securityContext: { privileged: true },
                    volumeMounts: [volume],
                    // A VM that is ready is given to a job at once.
                    readinessProbe: { tcpSocket: { port: taskExecutorPort }, periodSeconds: 2 },
                  },
                ],
                volumes: [{ name: volume.name, emptyDir: {} }],
              },
              template,
            ),
          },
        },
      },
      { parent: this, provider, protect: true },
    );
    this.registerOutputs({});
  }
}
