import type { Layer } from "./layer.ts";
import type { Image } from "./oci-layout.ts";
import { programFolder } from "./program-layers.ts";
import { baseImage, controllerImage, executorImage, sandboxImage } from "./references.ts";
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

/**
 * The controller's image, as controller/Dockerfile makes it but for the base, for tini (nobody here stops it before it has
 * asked for SIGTERM), and for the types, which are taken away as for an executor.
 */
export function controllerImageOf({ debian, programs }: BaseLayers, sources: Layer): Image {
  return {
    reference: controllerImage,
    layers: [debian, programs, sources],
    config: {
      User: "65532:65532",
      WorkingDir: programFolder,
      Env: [`PATH=${systemPath.join(":")}`, "NODE_ENV=production"],
      Entrypoint: [`${programFolder}/bin/node`, "controller/main.js"],
    },
  };
}
