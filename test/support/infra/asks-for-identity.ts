import { z } from "zod";
import type { ClusterApi } from "../../../scripts/peers/cluster/api.ts";
import { programFolder } from "../../../scripts/peers/cluster/image/program-layers.ts";
import { folders } from "../../../infra/controller-environment.ts";

const deployment = z.object({
  spec: z.object({
    template: z.object({
      metadata: z.object({ labels: z.record(z.string(), z.string()) }),
      spec: z.looseObject({
        serviceAccountName: z.string(),
        containers: z.tuple([
          z.object({
            name: z.string(),
            image: z.string(),
            securityContext: z.looseObject({}),
            volumeMounts: z.array(z.looseObject({ name: z.string() })),
          }),
        ]),
        volumes: z.array(z.looseObject({ name: z.string() })),
      }),
    }),
  }),
});

/** In what a Pod differs from those of the Deployment. */
export type Difference = {
  readonly namespace?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly serviceAccountName?: string;
  readonly containerName?: string;
};

const script = `
while :; do
  ${programFolder}/bin/spire-agent api fetch x509 -timeout 5s -socketPath ${folders.agent}/spire-agent.sock 2>&1
  sleep 1
done`;

/**
 * Starts a Pod as those of a Deployment are, but for the difference, which asks the agent for its SVIDs again and again,
 * and logs what it is told. Its volume of the CSI driver is all that it gets of the Deployment's.
 */
export async function askForIdentity(
  api: ClusterApi,
  of: { readonly namespace: string; readonly name: string },
  name: string,
  difference: Difference,
  signal: AbortSignal,
): Promise<{ readonly namespace: string; readonly name: string }> {
  const found = await api.read(`/apis/apps/v1/namespaces/${of.namespace}/deployments/${of.name}`, signal);
  const { metadata, spec } = deployment.parse(found).spec.template;
  const [container] = spec.containers;
  const socket = "spire-agent-socket";
  const { namespace = of.namespace, labels = metadata.labels, containerName = container.name } = difference;
  const pod = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace, name, labels },
    spec: {
      ...spec,
      serviceAccountName: difference.serviceAccountName ?? spec.serviceAccountName,
      terminationGracePeriodSeconds: 0,
      containers: [
        {
          image: container.image,
          securityContext: container.securityContext,
          name: containerName,
          command: ["/bin/sh", "-c", script],
          volumeMounts: container.volumeMounts.filter((mount) => mount.name === socket),
        },
      ],
      volumes: spec.volumes.filter((volume) => volume.name === socket),
    },
  };
  await api.create(`/api/v1/namespaces/${namespace}/pods`, pod, signal);
  return { namespace, name };
}
