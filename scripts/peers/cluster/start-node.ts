import type { Component } from "./component.ts";
import { hasCondition } from "./conditions.ts";
import { importImages, containerdRecipe } from "./containerd.ts";
import { copyImageStore } from "./image-store.ts";
import { controllerImageOf, executorImageOf } from "./image/executor-images.ts";
import { byDigest, type Image } from "./image/oci-layout.ts";
import { controllerLayer, sourcesLayer } from "./image/program-layers.ts";
import { programPeers } from "./prepare-cluster.ts";
import type { Site } from "./site.ts";

/** Starts containerd, with the images of the sandbox and of the executor. `executor`: its reference by digest. */
export async function startRuntime(
  site: Site,
  signal: AbortSignal,
): Promise<{ readonly containerd: Component; readonly executor: string }> {
  const { parts, below } = site;
  const { root } = site.node.containerd;
  await copyImageStore(parts.images, root, parts.environment, signal);
  const containerd = await site.start(containerdRecipe(site.node.containerd, site.launch), signal);
  const executor =
    parts.executor ??
    executorImageOf(parts.layers, await sourcesLayer(programPeers(parts.peers), below(""), parts, signal));
  const pinned = byDigest(executor);
  await addImages(site, "images", [executor, pinned], signal);
  return { containerd, executor: pinned.reference };
}

/** Gives the node the controller's image, of the sources as they are now. Resolves with its reference by digest. */
export async function addControllerImage(site: Site, signal: AbortSignal): Promise<string> {
  const { parts, below } = site;
  const sources = await controllerLayer(programPeers(parts.peers), below(""), parts, signal);
  const image = byDigest(controllerImageOf(parts.layers, sources));
  await addImages(site, "controller-images", [image], signal);
  return image.reference;
}

/** Of images that begin with the layers which the node has already. */
async function addImages(
  site: Site,
  name: string,
  images: readonly Image[],
  signal: AbortSignal,
): Promise<void> {
  const { debian, programs } = site.parts.layers;
  const { socket } = site.node.containerd;
  const given = { folder: site.below(name), socket, without: [debian, programs] };
  await importImages(images, given, site.namespaces, signal);
}

/** Starts the kubelet and waits until its node takes Pods. */
export async function startKubelet(
  site: Site,
  signal: AbortSignal,
): Promise<{ readonly kubelet: Component; readonly nodeUid: string }> {
  const { api, nodeName, node, slot, kubeconfigs } = site;
  const path = `/api/v1/nodes/${nodeName}`;
  const isReady = async (abort: AbortSignal) => {
    // What stands in the object is the last that was heard: of one that was stopped it is still ready.
    const { text: health } = await api.ask("GET", `${path}/proxy/healthz`, abort);
    return health === "ok" && hasCondition(await api.read(path, abort), "Ready");
  };
  const args = [
    `--config=${node.kubeletConfiguration}`,
    `--kubeconfig=${kubeconfigs.node}`,
    `--hostname-override=${nodeName}`,
    `--node-ip=${slot.nodeIp}`,
    `--root-dir=${node.kubeletRoot}`,
    `--cert-dir=${node.kubeletRoot}/pki`,
    "--v=2",
  ];
  const kubelet = await site.start(site.launch({ name: "kubelet", args, isReady }), signal);
  const { uid } = (await api.read(path, signal)).metadata;
  if (uid === undefined) throw new Error(`the node ${nodeName} has no UID`);
  return { kubelet, nodeUid: uid };
}
