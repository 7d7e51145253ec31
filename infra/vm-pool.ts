import type { Provider } from "@pulumi/kubernetes";
import { CustomResource } from "@pulumi/kubernetes/apiextensions/index.js";
import { ComponentResource, type ComponentResourceOptions, type Input } from "@pulumi/pulumi";
import type { Settings } from "./settings.ts";

export type VmPoolArgs = {
  /** In the namespace of the OpenSandbox server. */
  readonly pool: { readonly name: string; readonly namespace: string };
  readonly provider: Provider;
  readonly vm: NonNullable<Settings["vm"]>;
  readonly image: Input<string>;
};

/**
 * The pool of microVMs. Its name and namespace are fixed for good and it is always protected: to delete or to replace it
 * ends all of its VMs, with the jobs in them, and leaves their sandboxes behind.
 */
export class VmPool extends ComponentResource {
  constructor(name: string, args: VmPoolArgs, options?: ComponentResourceOptions) {
    super("gitea-dynamic-runner:index:VmPool", name, {}, options);
    const { pool, provider, vm, image } = args;
    const { warm, runtimeClass, nodeSelector, tolerations, resources } = vm.pool;
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
            spec: {
              runtimeClassName: runtimeClass,
              restartPolicy: "Never",
              automountServiceAccountToken: false,
              enableServiceLinks: false,
              terminationGracePeriodSeconds: 10,
              nodeSelector,
              tolerations,
              containers: [{ name: "executor", image, resources, securityContext: { privileged: true } }],
            },
          },
        },
      },
      { parent: this, provider, protect: true },
    );
    this.registerOutputs({});
  }
}
