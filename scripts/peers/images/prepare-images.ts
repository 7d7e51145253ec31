import type { LayerOptions } from "../cluster/image/cached-layer.ts";
import type { Layer } from "../cluster/image/layer.ts";
import { imagePeers, type Peer, type PeerName } from "../peer.ts";
import { preparePeer } from "../prepare-peer.ts";
import { silentReport } from "../report.ts";
import { debianBase, nodeLayer } from "./base-layers.ts";
import { imagesObstacle } from "./obstacle.ts";
import { registryProgram, syftProgram } from "./programs.ts";

const needed = [...imagePeers, "gitea-runner", "spire-server", "spire-agent"] as const;

/** All that images are built with here, and what stands for the images that they are built from. */
export type ImageParts = {
  readonly peers: Readonly<Record<(typeof needed)[number], Peer>>;
  readonly syft: string;
  readonly registry: string;
  readonly layers: { readonly debian: Layer; readonly node: Layer };
} & LayerOptions;

/** Finds or makes the parts: a quarter of an hour on two cores the first time. Rejects where no image can be built. */
export async function prepareImages(
  { report = silentReport, environment = process.env }: Partial<LayerOptions>,
  signal: AbortSignal,
): Promise<ImageParts> {
  const obstacle = await imagesObstacle(environment);
  if (obstacle !== undefined) throw new Error(obstacle);
  const options = { report, environment };
  const found: Partial<Record<PeerName, Peer>> = {};
  // One after the other: each build takes all processors by itself.
  for (const name of needed) found[name] = await preparePeer(name, options, signal);
  return {
    peers: found as ImageParts["peers"],
    syft: await syftProgram(options, signal),
    registry: await registryProgram(options, signal),
    layers: { debian: await debianBase(options, signal), node: await nodeLayer(options, signal) },
    ...options,
  };
}
