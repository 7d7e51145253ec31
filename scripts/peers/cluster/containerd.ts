import type { ComponentRecipe } from "./component.ts";
import type { ContainerdFiles } from "./containerd-settings.ts";
import { type Image, writeImages } from "./image/oci-layout.ts";
import type { Layer } from "./image/layer.ts";
import type { Launch } from "./launch.ts";
import type { Namespaces } from "./namespaces.ts";

const importDeadlineMs = 180_000;
const importScript = 'tar -C "$1" -chf - . | ctr -a "$2" -n k8s.io images import --snapshotter overlayfs -';

/** It needs nothing but its namespaces. */
export function containerdRecipe(files: ContainerdFiles, launch: Launch): ComponentRecipe {
  return launch({
    name: "containerd",
    args: ["--config", files.configuration],
    isReady: async (signal) => {
      await launch.ask("ctr", ["-a", files.socket, "version"], signal);
      return true;
    },
  });
}

/** Gives images to a containerd that runs, and has the layers `without` already. `folder` is not there yet. */
export async function importImages(
  images: readonly Image[],
  given: { readonly folder: string; readonly socket: string; readonly without?: readonly Layer[] },
  namespaces: Namespaces,
  signal: AbortSignal,
): Promise<void> {
  const { folder } = given;
  await writeImages(images, folder, given.without);
  const args = ["-o", "pipefail", "-c", importScript, "import-images", folder, given.socket];
  await namespaces.run("bash", args, signal, { deadline: importDeadlineMs });
}
