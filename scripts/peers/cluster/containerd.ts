import { type Component, type ComponentRecipe, startComponent } from "./component.ts";
import type { ContainerdFiles } from "./containerd-settings.ts";
import { type Image, writeImages } from "./image/oci-layout.ts";
import type { Layer } from "./image/layer.ts";
import type { Launch } from "./launch.ts";
import type { Namespaces } from "./namespaces.ts";

const importDeadlineMs = 180_000;
const importScript = 'tar -C "$1" -chf - . | ctr -a "$2" -n k8s.io images import --snapshotter overlayfs -';

/** Starts containerd, which needs nothing but its namespaces. */
export async function startContainerd(
  files: ContainerdFiles,
  launch: Launch,
  signal: AbortSignal,
): Promise<Component> {
  const recipe: ComponentRecipe = launch({
    name: "containerd",
    args: ["--config", files.configuration],
    isReady: async (abort) => {
      await launch.ask("ctr", ["-a", files.socket, "version"], abort);
      return true;
    },
  });
  return await startComponent(recipe, signal);
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
