import { Provider } from "@pulumi/kubernetes";
import { Namespace } from "@pulumi/kubernetes/core/v1/index.js";
import {
  ComponentResource,
  type ComponentResourceOptions,
  type ResourceTransformation,
} from "@pulumi/pulumi";

export type ClusterArgs = {
  /** Which cluster of the KUBECONFIG. */
  readonly context: string;
};

/** The cluster that everything is made in. Where it cannot be reached previews fail, also those of an empty stack. */
export class Cluster extends ComponentResource {
  readonly provider: Provider;

  constructor(name: string, { context }: ClusterArgs, options?: ComponentResourceOptions) {
    super("gitea-dynamic-runner:index:Cluster", name, {}, options);
    this.provider = new Provider(
      "kubernetes",
      {
        context,
        clusterIdentifier: context,
        // Otherwise they would be removed and made anew, and for that moment no Pod could start. Nobody reads them in
        // passing: the Deployment starts its Pods anew after a change.
        enableConfigMapMutable: true,
        enableSecretMutable: true,
      },
      { parent: this },
    );
    // Without a cluster the provider takes everything new for creatable, and a plan would be green.
    Namespace.get("kube-system", "kube-system", { parent: this, provider: this.provider });
    this.registerOutputs({});
  }
}

/**
 * For what is ours alone: a field that somebody has changed by hand is taken back. Without it the API server refuses to,
 * because the field is his from then on.
 */
export const takenBack: ResourceTransformation = ({ type, props, opts }) => {
  if (!type.startsWith("kubernetes:")) return undefined;
  const { metadata } = props;
  const annotations = { ...metadata?.annotations, "pulumi.com/patchForce": "true" };
  return { props: { ...props, metadata: { ...metadata, annotations } }, opts };
};
