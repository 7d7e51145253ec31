import type { Provider } from "@pulumi/kubernetes";
import {
  ValidatingAdmissionPolicy,
  ValidatingAdmissionPolicyBinding,
} from "@pulumi/kubernetes/admissionregistration/v1/index.js";
import { CustomResource } from "@pulumi/kubernetes/apiextensions/index.js";
import { ComponentResource, type ComponentResourceOptions } from "@pulumi/pulumi";
import type { Names } from "./names.ts";
import { registrationPolicy, type RegistrationPolicyArgs } from "./registration-policy.ts";
import type { Settings } from "./settings.ts";

export type RegistrationArgs = {
  readonly names: Names;
  readonly provider: Provider;
  readonly spire: Settings["spire"];
  /** Confines what the controller registers; absent where it registers nothing. */
  readonly policy: RegistrationPolicyArgs | undefined;
};

/** The label that the controller's Pods have, and that their identity is for. */
export const controllerLabels = (names: Names) => ({
  "app.kubernetes.io/name": "gitea-dynamic-runner",
  "app.kubernetes.io/instance": names.controller,
});

/**
 * The controller's own identity, which the facade shows to executors, and the policy that confines which identities it
 * may give to others. The definitions of spire-controller-manager have to be in the cluster.
 */
export class Registration extends ComponentResource {
  constructor(name: string, args: RegistrationArgs, options?: ComponentResourceOptions) {
    super("gitea-dynamic-runner:index:Registration", name, {}, options);
    const { names, provider, spire, policy } = args;
    const child = { parent: this, provider };
    new CustomResource(
      "controller",
      {
        apiVersion: "spire.spiffe.io/v1alpha1",
        kind: "ClusterSPIFFEID",
        metadata: {
          name: names.controller,
          // By which a newer controller-manager may choose what it looks at.
          labels: { "spire.spiffe.io/class-name": spire.className },
        },
        spec: {
          className: spire.className,
          spiffeIDTemplate: names.controllerSpiffeId,
          namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": names.namespace } },
          podSelector: { matchLabels: controllerLabels(names) },
          workloadSelectorTemplates: [
            "k8s:container-name:controller",
            // A label is soon given to a Pod of something else in this namespace.
            `k8s:sa:${names.controller}`,
          ],
        },
      },
      child,
    );
    if (policy !== undefined) {
      const { policy: rules, binding } = registrationPolicy(policy);
      const { spec } = rules;
      const made = new ValidatingAdmissionPolicy("confinement", { metadata: rules.metadata, spec }, child);
      new ValidatingAdmissionPolicyBinding(
        "confinement",
        { metadata: binding.metadata, spec: binding.spec },
        { ...child, dependsOn: made },
      );
    }
    this.registerOutputs({});
  }
}
