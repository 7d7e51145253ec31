import assert from "node:assert/strict";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { z } from "zod";
import type { ClusterApi } from "../../../scripts/peers/cluster/api.ts";

const deploymentShape = z.object({
  spec: z.object({
    template: z.object({
      metadata: z.object({ labels: z.record(z.string(), z.string()) }),
      spec: z.object({
        serviceAccountName: z.string(),
        containers: z.tuple([
          z.object({
            envFrom: z.tuple([z.object({ configMapRef: z.object({ name: z.string() }) })]),
            env: z.tuple([
              z.object({
                name: z.string(),
                valueFrom: z.object({ fieldRef: z.object({ fieldPath: z.literal("metadata.name") }) }),
              }),
            ]),
            volumeMounts: z.array(z.object({ name: z.string(), mountPath: z.string() })),
          }),
        ]),
        volumes: z.array(
          z.object({
            name: z.string(),
            secret: z.object({ secretName: z.string(), defaultMode: z.number() }).optional(),
            csi: z.object({ driver: z.literal("csi.spiffe.io") }).optional(),
            emptyDir: z.looseObject({}).optional(),
          }),
        ),
      }),
    }),
  }),
});
const texts = z.object({ data: z.record(z.string(), z.string()) });
const podList = z.object({ items: z.tuple([z.object({ metadata: z.object({ name: z.string() }) })]) });

/** What the controller of a Deployment gets to see. */
export type ProvisionedController = {
  readonly account: { readonly namespace: string; readonly name: string };
  readonly environment: Readonly<Record<string, string>>;
};

/**
 * Does what a kubelet would do for the one Pod of a Deployment: its variables, and its volumes as folders below `folder`. The
 * only thing that is not as in the Pod is where the volumes are, here and in the variables that say so.
 */
export async function provisionedController(
  api: ClusterApi,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  { folder, agentSocket }: { readonly folder: string; readonly agentSocket: string },
): Promise<ProvisionedController> {
  const soon = AbortSignal.timeout(30_000);
  const core = `/api/v1/namespaces/${namespace}`;
  const found = await api.read(`/apis/apps/v1/namespaces/${namespace}/deployments/${name}`, soon);
  const { template } = deploymentShape.parse(found).spec;
  const [container] = template.spec.containers;
  const selector = Object.entries(template.metadata.labels).map((label) => label.join("="));
  const pods = await api.read(`${core}/pods?labelSelector=${encodeURIComponent(selector.join())}`, soon);
  const [pod] = podList.parse(pods).items;

  const places: { readonly mountPath: string; readonly place: string }[] = [];
  for (const { name: volumeName, mountPath } of container.volumeMounts) {
    const place = path.join(folder, volumeName);
    const volume = template.spec.volumes.find((one) => one.name === volumeName);
    assert.ok(volume !== undefined, `there is no volume ${volumeName}`);
    await mkdir(place, { recursive: true });
    if (volume.secret !== undefined) {
      const { data } = texts.parse(await api.read(`${core}/secrets/${volume.secret.secretName}`, soon));
      for (const [file, content] of Object.entries(data))
        await writeFile(path.join(place, file), Buffer.from(content, "base64"), {
          mode: volume.secret.defaultMode,
        });
    } else if (volume.csi !== undefined) {
      // As the SPIFFE CSI driver has the folder with the node's agent's socket.
      await symlink(agentSocket, path.join(place, "spire-agent.sock"));
    }
    places.push({ mountPath, place });
  }
  const [{ configMapRef }] = container.envFrom;
  const { data } = texts.parse(await api.read(`${core}/configmaps/${configMapRef.name}`, soon));
  const moved = (value: string) => {
    const to = places.find(({ mountPath }) => value.replace("unix://", "").startsWith(`${mountPath}/`));
    return to === undefined ? value : value.replace(to.mountPath, () => to.place);
  };
  const [own] = container.env;
  return {
    account: { namespace, name: template.spec.serviceAccountName },
    environment: {
      ...Object.fromEntries(Object.entries(data).map(([key, value]) => [key, moved(value)])),
      [own.name]: pod.metadata.name,
    },
  };
}
