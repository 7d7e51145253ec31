import type { Layer } from "./layer.ts";
import type { Image } from "./oci-layout.ts";
import { programFolder } from "./program-layers.ts";
import { baseImage, executorImage, sandboxImage } from "./references.ts";
import { runnerUid } from "./rootfs.ts";

/** The layers that all executors' images have. */
export type BaseLayers = { readonly debian: Layer; readonly programs: Layer };

const systemPath = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/** The images that are the same for all sources. */
export function baseImages({ debian, programs }: BaseLayers): readonly Image[] {
  // The sandbox only has to be there until it is killed.
  const config = { Entrypoint: ["/usr/bin/sleep", "infinity"] };
  return [
    { reference: sandboxImage, layers: [debian], config },
    { reference: baseImage, layers: [debian, programs], config },
  ];
}

/** The executor's image: it starts the bootstrap, as the user that the agent knows. No Docker daemon is in it. */
export function executorImageOf({ debian, programs }: BaseLayers, sources: Layer): Image {
  const path = [`${programFolder}/bin`, ...systemPath].join(":");
  return {
    reference: executorImage,
    layers: [debian, programs, sources],
    config: {
      User: String(runnerUid),
      WorkingDir: "/home/runner",
      Env: [`PATH=${path}`, "HOME=/home/runner", "USER=runner", "LANG=C.UTF-8"],
      Entrypoint: [`${programFolder}/bin/node`, `${programFolder}/controller/bootstrap/main.js`],
    },
  };
}
